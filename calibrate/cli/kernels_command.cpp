#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "base/stop_signal.hpp"
#include "cli/commands.hpp"
#include "cli/progress.hpp"
#include "config/whole_file.hpp"
#include "measure/device_rates.hpp"
#include "measure/fitted_kernels.hpp"
#include "measure/host_threads.hpp"

namespace rehearse::inline calibrate {
namespace {

struct KernelsCommand {
  std::string gpu;  ///< empty: the device's own name
  int threads = 0;
  std::filesystem::path output;
  bool cpu = false;
  bool quiet = false;
};

void print_summary(const KernelCurves& curves, const std::filesystem::path& file) {
  for (const KernelError& error : curves.errors) {
    fmt::print("{:<26} {:>3.0f} points, each by a fit to the others: {:.1f} % off in the mean\n",
               error.family, error.points, 100 * error.mean);
  }
  fmt::print("kernels: {}\n", file.string());
}

void run_kernels(const KernelsCommand& command, const Invocation& invocation) {
  check_can_write(command.output);
  set_host_threads(command.threads);
  const auto device = command.cpu ? make_cpu_device() : make_device();
  catch_stop_signals();
  const DeviceRates rates = measure_rates(*device);
  std::optional<KernelPoints> points;
  {
    Progress progress(command.quiet);
    points = measure_kernels(
        *device, [&](double share) { progress.update(share, "kernels"); },
        [] { return stop_signal() != 0; });
  }
  if (!points) fail_as_stopped("nothing");
  const bool cpu = device->torch_device().is_cpu();
  const KernelCurves curves = fitted_kernels(
      *points, {.device = command.gpu.empty() ? device->identity().name : command.gpu,
                .date = fmt::format("{:%F}", fmt::gmtime(std::time(nullptr))),
                .cpu = cpu,
                .multiprocessors = device->multiprocessors(),
                .rates = rates});
  write_whole_file(command.output,
                   to_yaml(curves, fmt::format("Kernels measured by {}, LibTorch {}.",
                                               invocation.command_line, TORCH_VERSION)));
  print_summary(curves, command.output);
}

}  // namespace

void add_kernels_command(CLI::App& app, const Invocation& invocation) {
  auto command = std::make_shared<KernelsCommand>();
  CLI::App* kernels = app.add_subcommand(
      "kernels", "Time a handful of kernels, and fit what predicts any model's (two minutes)");
  kernels
      ->add_option("--output", command->output, "The kernels (YAML), as cluster.kernels names it")
      ->required()
      ->type_name("FILE");
  kernels->add_option("--gpu", command->gpu, "What to call the device; default: as it does itself")
      ->type_name("NAME");
  kernels->add_option("--threads", command->threads, "Host threads that compute")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  kernels->add_flag("--cpu", command->cpu, "Measure the CPU though there is a GPU");
  kernels->add_flag("--quiet", command->quiet, "No progress line");
  kernels->callback([command, &invocation] { run_kernels(*command, invocation); });
}

}  // namespace rehearse::inline calibrate
