// `rehearse import log FILE --scenario SCENARIO`: what a training's log measured, beside what is
// predicted of it.
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "base/progress_line.hpp"
#include "base/quoting.hpp"
#include "cli/import_config.hpp"
#include "cli/options.hpp"
#include "config/draft.hpp"
#include "config/files_read.hpp"
#include "config/output_files.hpp"
#include "config/text_source.hpp"
#include "foreign/calibrate.hpp"
#include "predict/measured_job.hpp"
#include "rollout/rl_log.hpp"

namespace rehearse::inline cli {
namespace {

struct ImportLogCommand {
  std::filesystem::path log, scenario, site;
  std::vector<std::string> overrides;
  bool calibrate = false;
  AnswerOptions answer;
};

/// A measured number, to six digits.
Draft rounded(double value) { return fmt::format("{:.6g}", value); }

std::string case_text(const ImportLogCommand& command, const TrainingLog& log,
                      const MeasuredRun& run) {
  Draft published;
  const auto add = [&](const char* metric, double value) {
    published.entry(metric, rounded(value));
  };
  if (run.step_time > 0) add("step_time_s", run.step_time);
  if (run.allocated_bytes) add("memory.allocated_peak_bytes", *run.allocated_bytes);
  if (run.reserved_bytes && log.format != "nvidia_smi_log")
    add("memory.reserved_peak_bytes", *run.reserved_bytes);
  if (run.reserved_bytes && log.format == "nvidia_smi_log")
    add("memory.used_bytes", *run.reserved_bytes);
  Draft one;
  one.set("name", command.log.stem().string()).set("scenario", command.scenario.string());
  if (!command.overrides.empty()) one.set("set", Draft::list_of(command.overrides));
  one.set("published", std::move(published));
  Draft file;
  file.set("source", log.what + ", " + command.log.string());
  file.set("cases", Draft::list({std::move(one)}));
  return file.block();
}

void tell_run(const TrainingLog& log, const MeasuredRun& run) {
  tell(fmt::format("{}\n", log.what));
  if (run.step_time > 0) {
    tell(run.steps == 1
             ? fmt::format("entries       1, behind {} of another pace: one says nothing of how "
                           "steady it is\n",
                           run.warming_up)
             : fmt::format("steady        {} entries of the log, behind {} of its start\n",
                           run.steps, run.warming_up));
    tell(run.steps == 1 ? fmt::format("step          {:.6g} s\n", run.step_time)
                        : fmt::format("step          {:.6g} s, quartiles {:.2g} % apart\n",
                                      run.step_time, 100 * run.spread));
    if (run.tokens > 0)
      tell(fmt::format("tokens/s      {:.6g}, {:.6g} of each GPU\n",
                       run.samples * run.tokens / run.step_time,
                       run.samples * run.tokens / run.step_time / static_cast<double>(run.gpus)));
  }
  if (run.tflops_per_gpu)
    tell(fmt::format("TFLOP/s       {:.6g} of each GPU, as that framework counts them\n",
                     *run.tflops_per_gpu));
  if (run.allocated_bytes)
    tell(fmt::format("memory        {:.4g} GiB allocated at most\n",
                     *run.allocated_bytes / 1073741824));
  if (run.reserved_bytes)
    tell(fmt::format("memory        {:.4g} GiB reserved at most\n",
                     *run.reserved_bytes / 1073741824));
}

void calibrate_by(const ImportLogCommand& command, const MeasuredRun& run) {
  if (run.step_time <= 0)
    throw InputError(fmt::format("{}: error: the log does not tell how long a step takes",
                                 command.log.string()));
  const SolvedNumber solved = [&] {
    ProgressLine line(command.answer.quiet);
    return solve_number(command.scenario, command.overrides, run.step_time, [&](std::size_t count) {
      line.show(fmt::format("which number makes them agree: {} simulations", count));
    });
  }();
  tell(fmt::format("predicted     {:.6g} s; with {}: {}, {:.3g} times the scenario's, {:.6g} s\n",
                   solved.before, solved.key, solved.value, solved.factor, solved.after));
  tell(fmt::format("why that one  {}\n", solved.why));
  if (!solved.shares.empty())
    tell(
        fmt::format("such a step   up to {:.1f} % longer (90 % interval); {:.1f} % where --site's "
                    "file says this one\n",
                    100 * (solved.above - 1), 100 * (solved.above_after - 1)));
  const auto document = Document::load(command.scenario)->with_overrides(command.overrides);
  const std::string kind = used_cluster(*document);
  const bool of_site = solved.key.starts_with("cluster.") && !kind.empty();
  if (!command.site.empty() && of_site && kind.ends_with(".yaml"))
    throw InputError(
        fmt::format("{}: error: the scenario's machines are a site's already\n"
                    "remedy: calibrate those that it changes: --set cluster.use=NAME, "
                    "the `use` of {}",
                    command.scenario.string(), kind));
  if (command.site.empty() || !of_site) {
    tell(fmt::format(
        "--set {}={} has it{}\n", solved.key, solved.value,
        command.site.empty() ? "" : "; a site file holds numbers of machines that `use` names"));
    return;
  }
  write_file(command.site, site_text(kind, solved.key.substr(8), solved.value, {solved.shares},
                                     fmt::format("rehearse import log {} --scenario {} --calibrate",
                                                 command.log.string(), command.scenario.string())));
}

std::string rl_case_text(const ImportLogCommand& command, const RlLog& log,
                         const RlCalibration& made) {
  std::vector<std::string> all = command.overrides;
  all.insert(all.end(), made.changes.begin(), made.changes.end());
  Draft file;
  file.set("scenario", command.scenario.string()).set("set", Draft::list_of(all));
  file.set("measured.step_time_s", rounded(*log.step));
  return fmt::format("# {}, {} steps\n{}", log.what, log.steps, file.block());
}

/// A log of post-training, by the parts of its steps.
void import_rl(const ImportLogCommand& command, const Document& document, const RlLog& log) {
  if (!command.site.empty())
    throw InputError(
        "rehearse import log: error: a log of post-training says nothing of the machines alone\n"
        "remedy: leave out --site; --calibrate prints what the scenario's rl: takes of it");
  tell(fmt::format("{}, {} steps\n", log.what, log.steps));
  RlCalibration made;
  if (command.calibrate) made = calibrate_rl(document, log);
  if (command.calibrate) {
    tell(fmt::format("{:<16} {:>10} {:>10} {:>11}\n", "part", "measured", "predicted",
                     "calibrated"));
    for (const RlCalibratedPart& part : made.parts)
      tell(fmt::format("{:<16} {:>8.4g} s {:>8.4g} s {:>9.4g} s\n", part.part, part.measured,
                       part.before, part.after));
    for (const std::string& one : made.left) tell("left: " + one + "\n");
    std::string line = "rehearse run " + shell_quoted(command.scenario.string());
    for (const std::string& one : command.overrides) line += " --set " + shell_quoted(one);
    for (const std::string& one : made.changes) line += " --set " + shell_quoted(one);
    tell(line + "\n");
  }
  write_answer({.table = [&](int, bool) { return rl_case_text(command, log, made); }, .json = {}},
               command.answer);
}

void import_it(const ImportLogCommand& command) {
  check_outputs({{"--output", command.answer.output}, {"--site", command.site}},
                {command.log, command.scenario});
  const auto document = Document::load(command.scenario)->with_overrides(command.overrides);
  if (asks_for_rl(*document)) {
    const std::string text = read_input(command.log, kMaxTextBytes);
    const auto log = read_rl_log(text, command.log.string());
    if (!log)
      throw InputError(fmt::format(
          "{}: error: the scenario is a step of post-training, and this is no log of one\n"
          "remedy: a log of verl (timing_s/...), NeMo-RL (Timing) or TRL (completions/mean_length)",
          command.log.string()));
    return import_rl(command, *document, *log);
  }
  const TrainingLog log = read_log(command.log);
  const Scenario scenario = read_question(command.scenario, command.overrides);
  const MeasuredRun run = measured_run(log, scenario);
  tell_run(log, run);
  if (command.calibrate) calibrate_by(command, run);
  write_answer({.table = [&](int, bool) { return case_text(command, log, run); }, .json = {}},
               command.answer);
}

}  // namespace

void add_import_log(CLI::App& import_app) {
  const auto command = std::make_shared<ImportLogCommand>();
  CLI::App& app = *import_app.add_subcommand("log", "A case for `validate` from a training's log");
  app.add_option("LOG", command->log, "The log")->required();
  add(app, "--scenario", command->scenario, "The scenario of that training", "SCENARIO")
      ->required();
  add_overrides(app, command->overrides,
                "Replace a value of it: --set cluster.nodes=8 (repeatable)");
  CLI::Option* calibrate = app.add_flag("--calibrate", command->calibrate,
                                        "Solve the one number that makes the prediction agree:\n"
                                        "the GPUs' speed, a link's rate, or the host's time");
  add(app, "--site", command->site,
      "Write the machines with that number to this file, which\na scenario's cluster names: use: "
      "FILE",
      "FILE")
      ->needs(calibrate);
  add_output(app, command->answer, "Write the case to this file");
  app.callback([command] { import_it(*command); });
}

}  // namespace rehearse::inline cli
