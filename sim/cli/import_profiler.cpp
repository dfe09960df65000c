// `rehearse import profiler TRACE...`: a compute profile and a scenario from PyTorch's profiler.
#include <fmt/format.h>

#include "base/printable.hpp"
#include "base/progress_line.hpp"
#include "cli/import_config.hpp"
#include "cli/options.hpp"
#include "config/document.hpp"
#include "config/output_files.hpp"
#include "foreign/traces/kineto_profile.hpp"
#include "scenario/names.hpp"

namespace rehearse::inline cli {
namespace {

struct ImportProfilerCommand {
  std::vector<std::filesystem::path> traces;
  std::filesystem::path profile, onto;
  TracedSetting setting;
  AnswerOptions answer;
};

std::vector<KinetoTrace> read_all(const ImportProfilerCommand& command) {
  ProgressLine line(command.answer.quiet);
  std::vector<KinetoTrace> ranks;
  for (const auto& file : command.traces)
    ranks.push_back(read_kineto(
        file,
        [&](double bytes) {
          if (line.due())
            line.show(fmt::format("reading {}: {:.0f} MB", file.filename().string(), bytes / 1e6));
        },
        ranks.empty() ? KinetoPart::all : KinetoPart::collectives));
  return ranks;
}

void tell_traced(const TracedProfile& traced) {
  tell(fmt::format("step          {:.6g} ms, of {} traced\n", 1e3 * traced.step, traced.steps));
  tell(fmt::format("kernels       {:.6g} ms, gaps {:.6g} ms, exposed collectives {:.6g} ms\n",
                   1e3 * traced.busy, 1e3 * (traced.step - traced.busy - traced.exposed),
                   1e3 * traced.exposed));
  tell(fmt::format("structure     {}\n", traced.structure));
  for (const TracedCollective& one : traced.collectives)
    tell(
        fmt::format("collective    {} of {:.6g} {}{}: {:.4g} in a step, {:.4g} ms at the least, "
                    "{:.4g} ms here\n",
                    one.what, one.elements, one.dtype.empty() ? "elements" : one.dtype,
                    one.ranks > 0 ? fmt::format(" over {} ranks", one.ranks) : "", one.count,
                    1e3 * one.least, 1e3 * one.first));
  for (const std::string& note : traced.notes) tell("note: " + note + "\n");
}

void import_it(ImportProfilerCommand command) {
  check_outputs({{"--output", command.answer.output}, {"--profile", command.profile}},
                command.traces);
  const std::vector<KinetoTrace> ranks = read_all(command);
  if (command.setting.gpu.empty()) command.setting.gpu = gpu_of(ranks.front().device);
  command.setting.command = "rehearse import profiler";
  for (const auto& file : command.traces) command.setting.command += " " + file.string();
  TracedProfile traced = profile_of(ranks, command.setting);
  if (!command.onto.empty())
    join(traced.profile, read_compute_profile(Document::load(command.onto)->root()));
  if (!command.answer.quiet) tell_traced(traced);
  write_file(command.profile, to_yaml(traced.profile));
  const std::filesystem::path folder = command.answer.output.parent_path();
  const std::filesystem::path named =
      command.answer.output.empty()
          ? command.profile
          : std::filesystem::proximate(command.profile, folder.empty() ? "." : folder);
  write_answer(
      {.table = [&](int, bool) { return traced_scenario(traced, command.setting, named.string()); },
       .json = {}},
      command.answer);
}

}  // namespace

void add_import_profiler(CLI::App& import_app) {
  const auto command = std::make_shared<ImportProfilerCommand>();
  CLI::App& app = *import_app.add_subcommand(
      "profiler", "A compute profile and a scenario from traces of PyTorch's profiler");
  app.add_option("TRACES", command->traces,
                 "Kineto's JSON, or gzip's of it; of several ranks of one run")
      ->required();
  add(app, "--profile", command->profile, "Write the compute profile to this file", "FILE")
      ->required();
  add(app, "--onto", command->onto, "A profile of the same network at other batches, to keep",
      "FILE");
  add_count(app, "--batch", command->setting.batch, "Samples of the traced micro-batch; else 1");
  add_count(app, "--sequence", command->setting.sequence, "Tokens of one", 1, 1'000'000'000);
  add_parsed(app, "--precision", command->setting.precision, parse_precision,
             "Its precision; else bf16", "NAME");
  add(app, "--gpu", command->setting.gpu, "Its GPU, where the trace has an unknown name", "NAME");
  add_output(app, command->answer, "Write the scenario to this file");
  app.add_flag("--quiet", command->answer.quiet, "The scenario alone");
  app.callback([command] { import_it(*command); });
}

}  // namespace rehearse::inline cli
