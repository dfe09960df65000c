#include <fmt/format.h>

#include <algorithm>

#include "base/printable.hpp"
#include "base/stop_signal.hpp"
#include "cli/commands.hpp"
#include "cli/progress_bar.hpp"
#include "cli/study_output.hpp"
#include "profile/whole_file.hpp"
#include "report/table.hpp"
#include "study/collect.hpp"
#include "study/content_key.hpp"
#include "study/file_lock.hpp"
#include "study/simulator.hpp"
#include "study/slurm.hpp"
#include "study/take_up.hpp"

namespace rehearse {
namespace {

constexpr std::size_t kDefaultTasks = 64;
constexpr std::size_t kWidth = 160;  ///< of a page of points

std::filesystem::path folder_of(const SweepCommand& command) {
  if (!command.output.empty()) return command.output;
  return command.study.stem().string() + ".results";
}

std::filesystem::path store_file(const SweepCommand& command) {
  const std::filesystem::path folder = folder_of(command);
  if (!command.shard) return results_file(folder);
  return shard_file(folder, command.shard->index, command.shard->count);
}

/// What `--dry-run` prints: the points, and how many simulations they take.
std::string describe(const PreparedStudy& prepared) {
  std::map<std::string, std::size_t> first;  // the first point with a content
  using enum TableColumn::Side;
  Table table({{"point"}});
  for (const std::string& axis : prepared.identity.axes) table.column(axis, left);
  for (std::size_t i = 0; i < prepared.points.size(); ++i) {
    const StudyPoint& point = prepared.points[i];
    TableRow row{.cells = {std::to_string(i + 1)}};
    row.cells.insert(row.cells.end(), point.labels.begin(), point.labels.end());
    const auto [same, is_new] = first.emplace(point.key, i + 1);
    if (!is_new) row.running_on = fmt::format("as point {}", same->second);
    if (const auto wrong = prepared.unreadable.find(point.key); wrong != prepared.unreadable.end())
      row.running_on = first_line(wrong->second.text);
    table.row(std::move(row));
  }
  Page page(kWidth, false);
  table.print(page);
  return page.text() + fmt::format("{} points, {} simulations\n", prepared.points.size(),
                                   first.size() - prepared.unreadable.size());
}

ChildLimits limits_of(const SweepCommand& command) {
  return {.jobs = jobs_or_cores(command.jobs),
          .timeout = command.timeout,
          .memory = command.memory,
          .stop = [] { return stop_signal() != 0; }};
}

/// In this process and its children.
void sweep_here(const SweepCommand& command, const PreparedStudy& prepared, const Simulator& with,
                ResultStore& store) {
  std::optional<ResultStore> cache;
  if (!command.cache.empty()) cache.emplace(command.cache);
  StudyFile csv(store, command.shard ? std::filesystem::path() : csv_file(folder_of(command)));
  bool complete = false;
  {
    ProgressBar bar(command.quiet);
    complete = sweep(prepared, with, store,
                     {.limits = limits_of(command),
                      .shard = command.shard.value_or(Shard{}),
                      .cache = cache ? &*cache : nullptr,
                      .progress = [&](const SweepProgress& progress) {
                        bar.show(progress);
                        csv.refresh();
                      }});
  }
  if (cache && !cache->flush().empty() && !command.quiet) {
    tell(cache->trouble() + "\n");
  }
  if (complete) return;
  csv.write();
  const StudyCount count = count_points(store);
  fail_as_stopped(fmt::format("{} holds {} of {} points", store.file().string(),
                              count.points - count.missing, count.points));
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
                                    folder_of(command).string()};
  const auto add = [&](const char* option, const std::string& value) {
    words.insert(words.end(), {option, value});
  };
  for (const std::string& assignment : command.overrides) add("--set", assignment);
  if (command.timeout) add("--timeout", fmt::format("{}s", command.timeout->value()));
  if (command.memory) add("--memory", fmt::format("{}B", command.memory->value()));
  if (!command.cache.empty()) add("--cache", command.cache.string());
  return words;
}

/// As an array job. False if nobody waits for it.
bool sweep_by_slurm(const SweepCommand& command, ResultStore& store) {
  const std::filesystem::path folder = folder_of(command);
  const StudyCount count = count_points(store);
  if (count.to_do == 0) return true;
  const std::size_t tasks = std::min(
      count.points, command.tasks > 0 ? static_cast<std::size_t>(command.tasks) : kDefaultTasks);
  const std::filesystem::path script = folder / "slurm.sbatch";
  write_whole_file(script, slurm_script({.name = "rehearse-" + store.identity()->study,
                                         .tasks = tasks,
                                         .folder = std::filesystem::absolute(folder),
                                         .options = command.slurm_options,
                                         .command = task_command(command)}));
  const std::string job = submit_to_slurm(script, command.wait);
  if (!command.wait) {
    write_stdout(fmt::format("job {} is submitted; when it has ended: rehearse collect {}\n", job,
                             folder.string()));
    return false;
  }
  if (stop_signal() != 0) {
    fail_as_stopped(fmt::format("job {} may go on; rehearse collect {} brings its results", job,
                                folder.string()));
  }
  for (std::size_t i = 1; i <= tasks; ++i) {
    const std::filesystem::path shard = shard_file(folder, i, tasks);
    if (std::filesystem::exists(shard)) collect(store, {shard});
  }
  return true;
}

void remove_results(const SweepCommand& command) {
  ResultStore::remove(store_file(command));
  if (command.shard) return;
  for (const auto& shard : shard_files(folder_of(command))) ResultStore::remove(shard);
}

/// A page is of a whole study.
void check_html(const SweepCommand& command) {
  if (command.html.empty() || (!command.shard && command.wait)) return;
  throw InputError(
      fmt::format("rehearse: error: --html: {}\n"
                  "remedy: rehearse collect FOLDER --html FILE, once all shards are there",
                  command.shard ? "a shard is only a part of the study"
                                : "with --no-wait there are no results yet"));
}

}  // namespace

void sweep_command(const SweepCommand& command) {
  check_html(command);
  const Simulator with = simulator();
  const PreparedStudy prepared = prepare(read_study(command.study, command.overrides), with);
  if (command.dry_run) {
    write_stdout(describe(prepared));
    return;
  }
  const std::filesystem::path file = store_file(command);
  if (command.resume && !std::filesystem::exists(file)) {
    throw MissingError(
        fmt::format("{}: error: nothing to resume is there\nremedy: leave --resume out, "
                    "or give the --output of then",
                    file.string()));
  }
  check_outputs({{"--html", command.html}}, {command.study, file, csv_file(folder_of(command))});
  make_folder(folder_of(command));
  const FileLock lock(file.string() + ".lock");
  if (!command.shard) remove_temporaries(csv_file(folder_of(command)));
  if (command.fresh) remove_results(command);
  ResultStore store(file);
  tell_if_changed(take_up(store, prepared.identity, prepared.points), command.quiet);
  catch_stop_signals();
  if (command.launcher == "slurm") {
    if (!sweep_by_slurm(command, store)) return;
  } else {
    sweep_here(command, prepared, with, store);
  }
  finish_study(store, {.folder = folder_of(command),
                       .format = command.format,
                       .html = command.html,
                       .shard = command.shard,
                       .fail_unless = command.fail_unless,
                       .quiet = command.quiet,
                       .color = command.color});
}

void collect_command(const CollectCommand& command) {
  const std::vector<std::filesystem::path> files =
      result_files(command.inputs.empty() ? std::vector{command.output} : command.inputs);
  make_folder(command.output);
  const std::filesystem::path file = results_file(command.output);
  check_outputs({{"--html", command.html}}, {file, csv_file(command.output)});
  const FileLock lock(file.string() + ".lock");
  remove_temporaries(csv_file(command.output));
  ResultStore store(file);
  collect(store, files);
  finish_study(store, {.folder = command.output,
                       .format = command.format,
                       .html = command.html,
                       .shard = {},
                       .fail_unless = {},
                       .quiet = command.quiet,
                       .color = command.color});
}

}  // namespace rehearse
