#include <algorithm>
#include <utility>

#include "validation/summary.hpp"

namespace rehearse::inline validation {
namespace {

/// Ends by case: of one run each where they are real, of its traces where they are replays.
using EndsByCase = std::vector<std::vector<RunEnd>>;

struct CollectedRuns {
  SettingSummary line;
  EndsByCase real, replays;

  void add(const LearnedRun& run) {
    real.push_back({end_of(run.real, run.trained_error())});
    replays.emplace_back();
    for (const Curve& trace : run.traces)
      replays.back().push_back(end_of(trace, run.trained_error()));
    count_within(real.back().front(), replays.back());
  }

  void count_within(const RunEnd& end, const std::vector<RunEnd>& traces) {
    if (traces.size() < 2) return;
    const auto [least, most] = std::ranges::minmax(traces, {}, &RunEnd::accuracy);
    const auto count = static_cast<double>(traces.size());
    ++line.within.intervals;
    if (least.accuracy <= end.accuracy && end.accuracy <= most.accuracy) ++line.within.inside;
    line.expected_within += (count - 1) / (count + 1);
  }

  SettingSummary summed() {
    line.real = side(real);
    line.replays = side(replays);
    line.same_failures = fisher_exact(line.real.failed, line.replays.failed);
    return line;
  }

  static EndsSummary side(const EndsByCase& ends) {
    EndsSummary summary;
    std::vector<std::vector<double>> all, trained;
    for (const auto& of_case : ends) {
      all.emplace_back();
      trained.emplace_back();
      for (const RunEnd& end : of_case) {
        ++summary.failed.all;
        summary.failed.some += end.failed ? 1 : 0;
        all.back().push_back(end.accuracy);
        if (!end.failed) trained.back().push_back(end.accuracy);
      }
    }
    summary.all = mean_of_clusters(all);
    summary.trained = mean_of_clusters(trained);
    return summary;
  }
};

CollectedRuns& line_of(std::vector<CollectedRuns>& lines, const ValidationCase& one) {
  const auto known = std::ranges::find_if(lines, [&](const CollectedRuns& line) {
    return line.line.group == one.group && line.line.setting == one.learned->setting;
  });
  if (known != lines.end()) return *known;
  lines.push_back(
      {.line = {.group = one.group, .setting = one.learned->setting}, .real = {}, .replays = {}});
  return lines.back();
}

}  // namespace

std::vector<SettingSummary> summarize_settings(const Validation& validation) {
  std::vector<CollectedRuns> lines;
  for (const ComparedFile& compared : validation) {
    for (const ValidationCase& one : compared.file.cases) {
      if (!one.held_out || !one.learned || one.learned->traces.empty()) continue;
      line_of(lines, one).add(*one.learned);
    }
  }
  std::vector<SettingSummary> summed;
  summed.reserve(lines.size());
  for (CollectedRuns& one : lines) summed.push_back(one.summed());
  return summed;
}

}  // namespace rehearse::inline validation
