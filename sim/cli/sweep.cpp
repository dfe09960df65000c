// `rehearse sweep STUDY` simulates every point of a study; `rehearse collect OUTPUT [INPUT...]`
// brings the results of shards together.
#include <fmt/format.h>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "base/quoting.hpp"
#include "base/stop_signal.hpp"
#include "cli/commands.hpp"
#include "cli/inputs.hpp"
#include "cli/options.hpp"
#include "study/collect.hpp"
#include "study/simulator.hpp"
#include "study/slurm.hpp"
#include "study/study_folder.hpp"
#include "study/study_view.hpp"
#include "study/take_up.hpp"

namespace rehearse::inline cli {
namespace {

constexpr int kDefaultTasks = 64;

struct SweepCommand {
  std::filesystem::path study;
  std::vector<std::string> overrides;  ///< of its scenario, "train.epochs=3"
  AnswerOptions answer;                ///< its output a folder; empty: STUDY.results, here
  int jobs = 0;                        ///< simulations side by side; 0: one per core
  std::optional<Seconds> timeout;      ///< of each
  std::optional<Bytes> memory;         ///< likewise
  std::filesystem::path cache;         ///< results that studies share; empty: none
  std::optional<Shard> shard;
  std::string launcher = "local";  ///< or "slurm"
  int tasks = kDefaultTasks;       ///< of the array job, at most
  std::vector<std::string> slurm_options;
  bool wait = true;         ///< for the array job
  bool resume = false;      ///< InputError if nothing is there to go on with
  bool fresh = false;       ///< without what is there
  std::string fail_unless;  ///< of every point: "fits" or "may_fit"; empty: nothing is asked
  bool intervals = true;
  bool dry_run = false;

  ChildLimits limits() const {
    return {.jobs = jobs_or_cores(jobs), .timeout = timeout, .memory = memory, .stop = [] {
              return stop_signal() != 0;
            }};
  }
  std::filesystem::path folder() const {
    if (!answer.output.empty()) return answer.output;
    return study.stem().string() + ".results";
  }
  std::filesystem::path store_file() const {
    return shard ? shard_file(folder(), shard->index, shard->count) : results_file(folder());
  }
};

/// Prints a study at its end. Its Error where it has one.
void finish(ResultStore& store, const StudyKept& kept, const AnswerOptions& answer) {
  const StudyEnd end = end_study(store, kept);
  if (!kept.shard) {
    const Detail detail = answer.verbose ? Detail::all : Detail::brief;
    print_answer({.table = [&](int, bool color) { return study_table(store, color, detail); },
                  .json = [&] { return study_json(store); },
                  .csv = [&] { return study_csv(store); }},
                 answer);
  }
  tell(end.failures);
  if (end.error) throw Error(*end.error);
  if (answer.quiet) return;
  const StudyCount count = count_points(store);
  tell(fmt::format("{} points; results in {}\n", count.points - count.missing,
                   kept.folder.string()));
}

/// The command line of one task, without its shard.
std::vector<std::string> task_command(const SweepCommand& command) {
  std::vector<std::string> words = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                    "sweep",
                                    command.study.string(),
                                    "--quiet",
                                    "--jobs",
                                    "1",
                                    "--output",
                                    command.folder().string()};
  const auto add_words = [&](const char* option, const std::string& value) {
    words.insert(words.end(), {option, value});
  };
  for (const std::string& assignment : command.overrides) add_words("--set", assignment);
  if (command.timeout) add_words("--timeout", fmt::format("{}s", command.timeout->value()));
  if (command.memory) add_words("--memory", fmt::format("{}B", command.memory->value()));
  if (!command.cache.empty()) add_words("--cache", command.cache.string());
  if (!command.intervals) words.emplace_back("--no-intervals");
  return words;
}

/// False if nobody waits for the array job.
bool sweep_on_slurm(const SweepCommand& command, ResultStore& store) {
  const auto job = sweep_by_slurm(store,
                                  {.name = "rehearse-" + store.identity()->study,
                                   .tasks = static_cast<std::size_t>(command.tasks),
                                   .folder = std::filesystem::absolute(command.folder()),
                                   .options = command.slurm_options,
                                   .command = task_command(command)},
                                  command.wait);
  if (!job) return true;
  write_stdout(fmt::format("job {} is submitted; when it has ended: rehearse collect {}\n", *job,
                           shell_quoted(command.folder().string())));
  return false;
}

/// A page is of a whole study.
void check_html(const SweepCommand& command) {
  if (command.answer.html.empty() || (!command.shard && command.wait)) return;
  throw InputError(
      fmt::format("rehearse: error: --html: {}\n"
                  "remedy: rehearse collect FOLDER --html FILE, once all shards are there",
                  command.shard ? "a shard is only a part of the study"
                                : "with --no-wait there are no results yet"));
}

void check_resumed(const SweepCommand& command) {
  const std::filesystem::path file = command.store_file();
  if (!command.resume || std::filesystem::exists(file)) return;
  throw MissingError(
      fmt::format("{}: error: nothing to resume is there\nremedy: leave --resume out, "
                  "or give the --output of then",
                  file.string()));
}

void run_sweep(const SweepCommand& command) {
  check_html(command);
  const Simulator with = simulator(command.intervals);
  const PreparedStudy prepared = prepare(read_study(command.study, command.overrides), with);
  if (command.dry_run) return write_stdout(study_outline(prepared));
  check_resumed(command);
  const std::filesystem::path folder = command.folder(), csv = csv_file(folder);
  check_outputs({{"--html", command.answer.html}}, {command.study, command.store_file(), csv});
  LockedStore store(command.store_file(), command.shard ? std::filesystem::path() : csv,
                    command.fresh);
  if (command.fresh && !command.shard)
    for (const auto& shard : shard_files(folder)) ResultStore::remove(shard);
  take_up(*store, prepared.identity, prepared.points, command.answer.quiet);
  catch_stop_signals();
  if (command.launcher != "slurm") {
    sweep_into(*store, prepared, with,
               {folder, command.cache, command.shard, command.limits(), command.answer.quiet});
  } else if (!sweep_on_slurm(command, *store)) {
    return;
  }
  finish(*store, {folder, command.answer.html, command.shard, command.fail_unless}, command.answer);
}

struct CollectCommand {
  std::vector<std::filesystem::path> inputs;  ///< folders or files; none: the shards in the output
  AnswerOptions answer;                       ///< its output a folder
};

void run_collect(const CollectCommand& command) {
  const std::filesystem::path folder = command.answer.output, csv = csv_file(folder);
  const std::vector<std::filesystem::path> files =
      result_files(command.inputs.empty() ? std::vector{folder} : command.inputs);
  const std::filesystem::path file = results_file(folder);
  make_folder(folder);
  check_outputs({{"--html", command.answer.html}}, {file, csv});
  LockedStore store(file, csv, false);
  collect(*store, files);
  finish(*store, {folder, command.answer.html, {}, {}}, command.answer);
}

/// Where a sweep runs.
void add_places(CLI::App& app, SweepCommand& command) {
  add_jobs(app, command.jobs);
  add_parsed(app, "--timeout", command.timeout, parse_time_above_0,
             "Of each simulation: --timeout 10min", "TIME");
  add_parsed(app, "--memory", command.memory, parse_size_above_0,
             "Of each simulation, also of those for its intervals: 4GiB", "SIZE");
  CLI::Option* shard =
      add_parsed(app, "--shard", command.shard, parse_shard,
                 "Only every n-th point, from the i-th on: --shard 2/8; collect merges", "I/N");
  add_choice(app, "--launcher", command.launcher, "local, or slurm: an array job of shards",
             {"local", "slurm"})
      ->excludes(shard);
  add_count(app, "--tasks", command.tasks, "Of the array job; else a point each, at most 64");
  add_repeated(app, "--sbatch", command.slurm_options,
               "An option of sbatch: --sbatch=--partition=cpu (repeatable)", "OPTION");
  app.add_flag("!--no-wait", command.wait, "Only submit the array job");
}

}  // namespace

void add_sweep(CLI::App& app) {
  const auto command = std::make_shared<SweepCommand>();
  CLI::App& sweep_app = *app.add_subcommand("sweep", "Predict every point of a study");
  sweep_app
      .add_option("STUDY", command->study, "The study file (YAML), a shipped one's name, or -")
      ->required();
  add_overrides(sweep_app, command->overrides,
                "Replace a value of the study's scenario (repeatable)");
  add_like(sweep_app, command->overrides);
  add_price(sweep_app, command->overrides);
  add_format(sweep_app, command->answer);
  add(sweep_app, "--output", command->answer.output,
      "Keep results in this folder; else STUDY.results", "FOLDER");
  add(sweep_app, "--cache", command->cache, "A file of results that studies share", "FILE");
  add_places(sweep_app, *command);
  CLI::Option* resume = sweep_app.add_flag(
      "--resume", command->resume, "Insist on results that are there (they are kept anyway)");
  sweep_app.add_flag("--fresh", command->fresh, "Begin anew")->excludes(resume);
  CLI::Option* fail_unless = add_fail_unless(sweep_app, command->fail_unless);
  sweep_app.add_flag("!--no-intervals", command->intervals,
                     "Best estimates alone, and the interval of memory: several\ntimes as fast");
  sweep_app.add_flag("--quiet", command->answer.quiet, "No progress bar");
  CLI::Option* html = add_html(sweep_app, command->answer);
  sweep_app.add_flag("--dry-run", command->dry_run, "Print the points, and stop")
      ->excludes(html)
      ->excludes(fail_unless);
  add_color(sweep_app, command->answer);
  add_verbose(sweep_app, command->answer);
  sweep_app.footer(
      "Examples:\n"
      "  rehearse sweep ddp_or_fsdp --html study.html\n"
      "  rehearse sweep study.yaml --shard 1/2 --output results");
  sweep_app.callback([command] {
    command->study = input_file(command->study, {"studies"});
    run_sweep(*command);
  });
}

void add_collect(CLI::App& app) {
  const auto command = std::make_shared<CollectCommand>();
  CLI::App& collect_app = *app.add_subcommand("collect", "Bring the results of shards together");
  collect_app.add_option("OUTPUT", command->answer.output, "The folder of the whole study")
      ->required();
  collect_app.add_option("INPUTS", command->inputs,
                         "Folders or files of results; none: the shards in OUTPUT");
  add_format(collect_app, command->answer);
  add_html(collect_app, command->answer);
  collect_app.add_flag("--quiet", command->answer.quiet, "Only the results");
  add_color(collect_app, command->answer);
  add_verbose(collect_app, command->answer);
  collect_app.callback([command] { run_collect(*command); });
}

}  // namespace rehearse::inline cli
