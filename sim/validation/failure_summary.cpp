#include <algorithm>
#include <cmath>

#include "convergence/forecast.hpp"
#include "validation/summary.hpp"

namespace rehearse::inline validation {
namespace {

void add(const ComparedMetric& metric, std::vector<FailureSummary>& lines) {
  const double p = metric.odds->failure_probability;
  const auto line = std::ranges::find(lines, metric.odds->verdict, &FailureSummary::verdict);
  ++line->runs;
  line->expected += p;
  line->deviation = std::hypot(line->deviation, std::sqrt(p * (1 - p)));
  line->failed += metric.measured > 0 ? 1 : 0;
}

}  // namespace

std::vector<FailureSummary> summarize_failures(const Validation& validation) {
  std::vector<FailureSummary> lines;
  for (const Verdict verdict : {Verdict::converges, Verdict::may_diverge, Verdict::diverges})
    lines.push_back({.verdict = to_string(verdict)});
  for (const ComparedFile& compared : validation) {
    for (std::size_t i = 0; i < compared.cases.size(); ++i) {
      if (!compared.file.cases[i].held_out) continue;
      for (const ComparedMetric& metric : compared.cases[i].metrics) {
        if (metric.odds) add(metric, lines);
      }
    }
  }
  std::erase_if(lines, [](const FailureSummary& line) { return line.runs == 0; });
  return lines;
}

}  // namespace rehearse::inline validation
