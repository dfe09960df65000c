#include "cli/study_output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "html/html.hpp"
#include "profile/whole_file.hpp"
#include "report/memory_verdict.hpp"

namespace rehearse {
namespace {

constexpr std::chrono::seconds kSeldom{2};
/// A share of the time of a sweep goes into its CSV at most: 1/20.
constexpr int kRarely = 20;
constexpr std::size_t kShownFailures = 10;

std::string render(const ResultStore& store, const StudyOutput& output) {
  if (output.format == "json") return study_json(store);
  if (output.format == "csv") return study_csv(store);
  return study_table(store, use_color(output.color));
}

/// "point 3 (8, ddp): what is wrong", whole.
std::string failure_text(std::size_t number, const StudyPoint& point, const std::string& text) {
  return fmt::format("point {} ({}): {}\n", number, fmt::join(point.labels, ", "), text);
}

/// The first failures, and how many there are.
void print_failures(const ResultStore& store, std::size_t failed) {
  std::size_t number = 0, shown = 0;
  for (const StudyPoint& point : store.points()) {
    ++number;
    const auto outcome = store.find(point.key);
    if (!outcome || outcome->code == ExitCode::success) continue;
    if (shown++ == kShownFailures) break;
    tell(failure_text(number, point, outcome->text));
  }
  if (failed > kShownFailures) tell(fmt::format("and {} more\n", failed - kShownFailures));
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

std::size_t missing_in(const StudyCount& count, const std::optional<Shard>& shard) {
  return shard ? 0 : count.missing;  // a shard leaves points to the others
}

/// The points whose memory is not what is asked for.
void check_fits(const ResultStore& store, const std::string& condition) {
  if (condition.empty()) return;
  std::vector<std::size_t> numbers;
  std::size_t number = 0;
  for (const StudyPoint& point : store.points()) {
    ++number;
    const auto outcome = store.find(point.key);
    if (!outcome || outcome->code != ExitCode::success) continue;
    const auto fit = memory_fit(nlohmann::json::parse(outcome->text)).value_or(MemoryFit{});
    if (!meets(fit.verdict, condition)) numbers.push_back(number);
  }
  if (numbers.empty()) return;
  throw Error(ExitCode::refuted, fmt::format("rehearse: --fail-unless {}: not so: point{} {}",
                                             condition, numbers.size() == 1 ? "" : "s",
                                             fmt::join(numbers, ", ")));
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

void tell_if_changed(bool changed, bool quiet) {
  if (changed && !quiet) tell("The study has changed; what is there of its points is kept.\n");
}

void finish_study(ResultStore& store, const StudyOutput& output) {
  std::string trouble = unwritten_text(store);
  StudyFile csv(store, output.shard ? std::filesystem::path() : csv_file(output.folder));
  trouble += csv_trouble(csv);
  if (!output.shard) {
    trouble += page_trouble(store, output.html);
    write_stdout(render(store, output));
  }
  const StudyCount count = count_points(store);
  const std::size_t missing = missing_in(count, output.shard);
  print_failures(store, count.failed);
  if (!trouble.empty()) {
    throw MissingError(trouble + "remedy: make room; the same command goes on from there");
  }
  if (missing > 0) {
    throw MissingError(
        fmt::format("{}: error: {} of {} points have no result\nremedy: the same sweep "
                    "goes on from there",
                    store.file().string(), missing, count.points));
  }
  if (count.failed > 0) {
    throw Error(ExitCode::refuted,
                fmt::format("rehearse: {} of {} points failed; {} has all others", count.failed,
                            count.points, store.file().string()));
  }
  check_fits(store, output.fail_unless);
  if (!output.quiet) {
    tell(fmt::format("{} points; results in {}\n", count.points - count.missing,
                     output.folder.string()));
  }
}

}  // namespace rehearse
