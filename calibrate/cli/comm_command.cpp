#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <thread>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/progress.hpp"
#include "comm/sweep.hpp"
#include "launch/run_ranks.hpp"
#include "measure/device.hpp"
#include "measure/host_threads.hpp"
#include "profile/whole_file.hpp"

namespace rehearse {
namespace {

struct CommCommand {
  int nproc = 2;
  std::vector<std::string> sizes, collectives, overlap = {"1MiB", "16MiB"};
  int repetitions = SweepOptions{}.repetitions;
  std::string name;
  std::filesystem::path output;
  bool cpu = false;
  bool quiet = false;
};

std::vector<Bytes> sizes_of(const std::string& option, const std::vector<std::string>& texts) {
  std::vector<Bytes> sizes;
  for (const std::string& text : texts) {
    try {
      sizes.push_back(parse_bytes(text));
    } catch (const std::invalid_argument& error) {
      throw InputError(fmt::format("error: {}: {}", option, error.what()));
    }
    if (!(sizes.back() > Bytes(0)))
      throw InputError(fmt::format("error: {}: a size of nothing", option));
  }
  return sizes;
}

SweepOptions sweep_options(const CommCommand& command) {
  SweepOptions options;
  options.sizes =
      command.sizes.empty() ? default_sweep_sizes() : sizes_of("--sizes", command.sizes);
  options.repetitions = command.repetitions;
  const bool none = command.overlap == std::vector<std::string>{"none"};
  if (!none) options.overlapped = sizes_of("--overlap", command.overlap);
  if (command.collectives.empty()) return options;
  options.kinds.clear();
  for (const CollectiveKind kind : kCollectiveKinds) {
    const auto& names = command.collectives;
    if (std::find(names.begin(), names.end(), to_string(kind)) != names.end())
      options.kinds.push_back(kind);
  }
  return options;
}

/// One rank's part, in its own process; rank 0's text is the result.
std::string measure_as(const RankEnvironment& self, const CommCommand& command,
                       const SweepOptions& options) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  set_host_threads(std::max(1, cores / self.local_world_size));
  const auto device = command.cpu ? make_cpu_device() : make_device();
  const bool on_gpu = device->torch_device().is_cuda();
  const ProcessGroup group =
      make_process_group(self, {.backend = on_gpu ? CommBackend::nccl : CommBackend::gloo});
  Progress progress(command.quiet || self.rank != 0);
  SweepResult result = sweep_collectives(
      group, device->torch_device(), options, [&](std::size_t done, std::size_t all) {
        progress.update(static_cast<double>(done) / static_cast<double>(all), "collectives");
      });
  result.nodes = self.world_size / self.local_world_size;
  result.hardware = device->identity().name;
  barrier(group);
  return to_json(result);
}

void print_summary(const SweepResult& result, const std::string& file) {
  for (const SweepPoint& point : result.points) {
    const Seconds each = point.median / bus_factor(point.kind, result.ranks);
    fmt::print("{:<14} {:>9}  {:>8} ({} to {})  busbw {}\n", to_string(point.kind),
               format(point.size), format(point.median), format(point.p5), format(point.p95),
               format(point.size / each));
  }
  for (const SweepOverlap& one : result.overlaps) {
    fmt::print(
        "{:<14} {:>9}  beside compute {:.2f} times as long; compute beside it {:.2f} times\n",
        to_string(one.kind), format(one.size), one.comm_slowdown(), one.compute_slowdown());
  }
  fmt::print("profile: {}\n", file);
}

void write_results(const CommCommand& command, const SweepResult& result,
                   const std::string& command_line) {
  const SweepProfileOptions options{
      command.name.empty() ? command.output.stem().string() : command.name, command_line,
      fmt::format("{:%F}", fmt::gmtime(std::time(nullptr)))};
  std::filesystem::path table = command.output;
  table.replace_extension(".csv");
  // The points first: a fit that fails must not lose them.
  write_whole_file(table, comm_points_table(result));
  write_whole_file(command.output, comm_profile_file(result, options));
  print_summary(result, command.output.string());
}

void run_comm(const CommCommand& command, const Invocation& invocation) {
  const SweepOptions options = sweep_options(command);
  if (const auto self = rank_environment_of_launcher()) {
    const std::string text = measure_as(*self, command, options);
    if (self->rank == 0) write_results(command, sweep_from_json(text), invocation.command_line);
    return;
  }
  const auto texts = collect_from_ranks(command.nproc, [&](const RankEnvironment& self) {
    return measure_as(self, command, options);
  });
  write_results(command, sweep_from_json(texts.front()), invocation.command_line);
}

}  // namespace

void add_comm_command(CLI::App& app, const Invocation& invocation) {
  auto command = std::make_shared<CommCommand>();
  CLI::App* comm = app.add_subcommand("comm", "Time collectives between processes, and fit them");
  std::vector<std::string> names;
  for (const CollectiveKind kind : kCollectiveKinds) names.push_back(to_string(kind));
  comm->add_option("--nproc", command->nproc,
                   "Processes on this node, where no launcher started several")
      ->check(CLI::Range(2, 1024))
      ->type_name("N");
  comm->add_option("--sizes", command->sizes,
                   "1KiB,1MiB,...; 1KiB to 64MiB by powers of 2 otherwise")
      ->delimiter(',')
      ->type_name("SIZE,...");
  comm->add_option("--collectives", command->collectives,
                   "Of " + fmt::format("{}", fmt::join(names, ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(names))
      ->type_name("NAME,...");
  comm->add_option("--overlap", command->overlap, "Sizes to measure beside compute, or none")
      ->delimiter(',')
      ->type_name("SIZE,...");
  comm->add_option("--repeat", command->repetitions, "Repetitions of each size")
      ->check(CLI::Range(3, 100000))
      ->type_name("N");
  comm->add_option("--name", command->name, "Name of the profile; else the file's")
      ->type_name("NAME");
  comm->add_option("--output", command->output, "The profile (YAML); its points go beside it (CSV)")
      ->required()
      ->type_name("FILE");
  comm->add_flag("--cpu", command->cpu, "Gloo between CPUs though there is a GPU");
  comm->add_flag("--quiet", command->quiet, "No progress line");
  comm->callback([command, &invocation] { run_comm(*command, invocation); });
}

}  // namespace rehearse
