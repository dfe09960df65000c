#include <fmt/format.h>

#include <memory>

#include "base/error.hpp"
#include "cli/machine_calibration.hpp"

namespace rehearse::inline calibrate {

void add_machine_options(CLI::App& app, const Invocation& invocation) {
  auto request = std::make_shared<MachineRequest>();
  app.add_option("--nproc", request->survey.nproc,
                 "Ranks to measure: by default as many as GPUs, or 2 on the CPU")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.add_option("--model", request->models,
                 "Of `list models`; else small_cnn on a CPU, the large ones on GPUs")
      ->delimiter(',')
      ->type_name("NAME,...");
  app.add_option("--precision", request->precisions,
                 "fp32, tf32, bf16, fp16, bf16_pure or bf16_pure_autocast;\n"
                 "else fp32, on GPUs also tf32 and bf16")
      ->delimiter(',')
      ->check(CLI::IsMember(precision_names()))
      ->type_name("NAME,...");
  app.add_option("--batches", request->batches, "Batch sizes: 1,2,4,8,16")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000000))
      ->type_name("N,N,...");
  app.add_option("--image", request->shape.image, "Pixels per side, where not the model's own")
      ->check(CLI::Range(1, 65536))
      ->type_name("N");
  app.add_option("--sequence", request->shape.sequence, "Tokens per sample, likewise")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N");
  app.add_option("--output", request->output, "A folder; by default calibrated/<the device>")
      ->type_name("DIR");
  app.add_option("--threads", request->survey.threads,
                 "Host threads of each rank; by default its share of the cores")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  app.add_option("--minutes", request->minutes,
                 "For all of it; by default 3, on GPUs for each model and precision")
      ->check(CLI::Range(0.5, 1e5))
      ->type_name("M");
  app.add_flag("--cpu", request->survey.cpu, "Measure the CPU though there is a GPU");
  app.add_flag("--dry-run", request->dry_run,
               "Print what would be measured, and how long it takes");
  app.add_flag("--quiet", request->quiet, "No progress line");
  // Before a command's own work.
  app.parse_complete_callback([&app] {
    const auto given =
        app.get_options([](const CLI::Option* option) { return option->count() > 0; });
    if (app.get_subcommands().empty() || given.empty()) return;
    throw InputError(
        fmt::format("error: {}: the options before a command are those of the whole machine\n"
                    "remedy: write {} behind the command, or leave the command out",
                    given.front()->get_name(), given.front()->get_name()));
  });
  app.callback([&app, request, &invocation] {
    if (!app.get_subcommands().empty()) return;
    calibrate_machine(*request, invocation);
  });
}

}  // namespace rehearse::inline calibrate
