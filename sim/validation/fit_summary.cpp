#include <algorithm>

#include "validation/summary.hpp"

namespace rehearse::inline validation {
namespace {

/// The harmonic mean of precision and recall; 1 where nothing is to be found and nothing was.
double f1(std::size_t found, std::size_t wrongly, std::size_t missed) {
  const std::size_t all = 2 * found + wrongly + missed;
  return all == 0 ? 1 : 2 * static_cast<double>(found) / static_cast<double>(all);
}

void count(const ComparedMetric& metric, FitSummary& line) {
  const bool fits = metric.measured > 0, said = metric.predicted > 0;
  if (fits) ++(said ? line.fit_right : line.fit_wrong);
  if (!fits) ++(said ? line.oom_wrong : line.oom_right);
}

}  // namespace

double FitSummary::f1_fits() const { return f1(fit_right, oom_wrong, fit_wrong); }
double FitSummary::f1_oom() const { return f1(oom_right, fit_wrong, oom_wrong); }

std::vector<FitSummary> summarize_fits(const Validation& validation) {
  std::vector<FitSummary> lines;
  for (const ComparedFile& compared : validation) {
    FitSummary line{.set = compared.file.name};
    for (std::size_t i = 0; i < compared.cases.size(); ++i) {
      if (!compared.file.cases[i].held_out) continue;
      for (const ComparedMetric& metric : compared.cases[i].metrics)
        if (metric.metric == kFits) count(metric, line);
    }
    if (line.fit_right + line.fit_wrong + line.oom_right + line.oom_wrong > 0)
      lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<FitBin> reliability_of_fits(const Validation& validation) {
  std::vector<FitBin> bins = {{{0, 0.05}}, {{0.05, 0.5}}, {{0.5, 0.95}}, {{0.95, 1}}};
  for (const ComparedFile& compared : validation) {
    for (std::size_t i = 0; i < compared.cases.size(); ++i) {
      if (!compared.file.cases[i].held_out) continue;
      for (const ComparedMetric& metric : compared.cases[i].metrics) {
        if (!metric.fits_chance) continue;
        FitBin& bin = *std::ranges::find_if(
            bins, [&](const FitBin& one) { return *metric.fits_chance <= one.said.high; });
        ++bin.runs;
        bin.expected += *metric.fits_chance;
        bin.fit += metric.measured > 0 ? 1 : 0;
      }
    }
  }
  std::erase_if(bins, [](const FitBin& bin) { return bin.runs == 0; });
  return bins;
}

}  // namespace rehearse::inline validation
