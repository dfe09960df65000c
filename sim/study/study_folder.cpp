#include "study/study_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/printable.hpp"
#include "base/stop_signal.hpp"
#include "config/json/json_text.hpp"
#include "config/output_files.hpp"
#include "config/whole_file.hpp"
#include "html/html.hpp"
#include "report/memory_verdict.hpp"
#include "study/progress_bar.hpp"
#include "study/study_view.hpp"

namespace rehearse::inline study {
namespace {

constexpr std::chrono::seconds kSeldom{2};
/// A share of the time of a sweep goes into its CSV at most: 1/20.
constexpr int kRarely = 20;
constexpr std::size_t kShownFailures = 10;

/// "point 3 (8, ddp): what is wrong", whole.
std::string failure_text(std::size_t number, const StudyPoint& point, const std::string& text) {
  return fmt::format("point {} ({}): {}\n", number, fmt::join(point.labels, ", "), text);
}

/// The first failures, and how many there are.
std::string failures_text(const ResultStore& store, std::size_t failed) {
  std::string text;
  std::size_t number = 0, shown = 0;
  for (const StudyPoint& point : store.points()) {
    ++number;
    const auto outcome = store.find(point.key);
    if (!outcome || outcome->code == ExitCode::success) continue;
    if (shown++ == kShownFailures) break;
    text += failure_text(number, point, outcome->text);
  }
  if (failed > kShownFailures) text += fmt::format("and {} more\n", failed - kShownFailures);
  return text;
}

/// What is only in this process and ends with it; empty: nothing.
std::string unwritten_text(ResultStore& store) {
  const std::vector<std::string> unwritten = store.flush();
  if (unwritten.empty()) return "";
  const std::set<std::string> keys(unwritten.begin(), unwritten.end());
  std::vector<std::size_t> numbers;
  std::size_t number = 0;
  for (const StudyPoint& point : store.points()) {
    ++number;
    if (keys.contains(point.key)) numbers.push_back(number);
  }
  return fmt::format("{}\nsimulated, but not written: points {}\n", store.trouble(),
                     fmt::join(numbers, ", "));
}

std::string csv_trouble(StudyFile& csv) {
  try {
    csv.write();
    return "";
  } catch (const MissingError& error) {
    return std::string(error.what()) + "\n";
  }
}

/// Writes the page, where one is asked for.
std::string page_trouble(const ResultStore& store, const std::filesystem::path& html) {
  try {
    if (!html.empty()) write_file(html, to_html(study_json(store)));
    return "";
  } catch (const MissingError& error) {
    return std::string(error.what()) + "\n";
  }
}

/// That points' memory is not what is asked for.
std::optional<Error> wrong_fits(const ResultStore& store, const std::string& condition) {
  if (condition.empty()) return std::nullopt;
  std::vector<std::size_t> numbers;
  std::size_t number = 0;
  for (const StudyPoint& point : store.points()) {
    ++number;
    const auto outcome = store.find(point.key);
    if (!outcome || outcome->code != ExitCode::success) continue;
    const auto fit = memory_fit(parsed_json(outcome->text)).value_or(MemoryFit{});
    if (!meets(fit.verdict, condition)) numbers.push_back(number);
  }
  if (numbers.empty()) return std::nullopt;
  return Error(ExitCode::refuted,
               fmt::format("rehearse: --fail-unless {}: not so: point{} {}", condition,
                           numbers.size() == 1 ? "" : "s", fmt::join(numbers, ", ")));
}

/// Why the study is not as it was asked for; `trouble` is what could not be written.
std::optional<Error> wrong_with(const ResultStore& store, const StudyCount& count,
                                const StudyKept& kept, const std::string& trouble) {
  if (!trouble.empty())
    return MissingError(trouble + "remedy: make room; the same command goes on from there");
  const std::size_t missing = kept.shard ? 0 : count.missing;  // it leaves points to the others
  if (missing > 0) {
    return MissingError(
        fmt::format("{}: error: {} of {} points have no result\nremedy: the same sweep "
                    "goes on from there",
                    store.file().string(), missing, count.points));
  }
  if (count.failed > 0) {
    if (count.failed == count.points)
      return Error(ExitCode::refuted,
                   fmt::format("rehearse: {} failed",
                               count.points == 1 ? "the one point"
                                                 : fmt::format("all {} points", count.points)));
    return Error(ExitCode::refuted,
                 fmt::format("rehearse: {} of {} points failed; {} has the others", count.failed,
                             count.points, store.file().string()));
  }
  return wrong_fits(store, kept.fail_unless);
}

}  // namespace

std::filesystem::path csv_file(const std::filesystem::path& folder) {
  return folder / "results.csv";
}

StudyFile::StudyFile(const ResultStore& store, std::filesystem::path file)
    : store_(store), file_(std::move(file)), next_(Clock::now() + kSeldom) {}

void StudyFile::refresh() {
  const auto start = Clock::now();
  if (file_.empty() || start < next_) return;
  try {
    write();
  } catch (const MissingError&) {
    // At the end it is told.
  }
  const auto end = Clock::now();
  next_ = end + std::max<Clock::duration>(kSeldom, kRarely * (end - start));
}

void StudyFile::write() {
  if (!file_.empty()) write_whole_file(file_, study_csv(store_));
}

void sweep_into(ResultStore& store, const PreparedStudy& prepared, const Simulator& simulator,
                const SweepKept& kept) {
  std::optional<ResultStore> cache;
  if (!kept.cache.empty()) cache.emplace(kept.cache);
  StudyFile csv(store, kept.shard ? std::filesystem::path() : csv_file(kept.folder));
  const auto swept = [&] {
    ProgressBar bar(kept.quiet);
    return sweep(prepared, simulator, store,
                 {.limits = kept.limits,
                  .shard = kept.shard.value_or(Shard{}),
                  .cache = cache ? &*cache : nullptr,
                  .progress = [&](const SweepProgress& progress) {
                    bar.show(progress);
                    csv.refresh();
                  }});
  };
  const bool complete = swept();
  if (cache && !cache->flush().empty() && !kept.quiet) tell(cache->trouble() + "\n");
  if (complete) return;
  csv.write();
  const StudyCount count = count_points(store);
  fail_as_stopped(fmt::format("{} holds {} of {} points", store.file().string(),
                              count.points - count.missing, count.points));
}

StudyEnd end_study(ResultStore& store, const StudyKept& kept) {
  std::string trouble = unwritten_text(store);
  StudyFile csv(store, kept.shard ? std::filesystem::path() : csv_file(kept.folder));
  trouble += csv_trouble(csv);
  trouble += page_trouble(store, kept.html);
  const StudyCount count = count_points(store);
  return {.failures = failures_text(store, count.failed),
          .error = wrong_with(store, count, kept, trouble)};
}

}  // namespace rehearse::inline study
