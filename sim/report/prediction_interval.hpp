#pragma once

#include <functional>
#include <string>
#include <vector>

#include "report/report.hpp"
#include "report/run_facts.hpp"

namespace rehearse::inline report {

/// Error by chance alone between two runs of this length, the real one and the
/// simulated: half-widths of 90 % intervals of their difference.
struct Sampling {
  double step = 0;       ///< relative, for the mean step
  double staleness = 0;  ///< in updates, for the mean
};

/// Error of the mean of as many values as these, from their standard deviation: two means differ,
/// by Student's t. One value has no deviation of its own: `deviation` stands for it.
double mean_error(const std::vector<double>& values, double deviation = 0);

/// The 90 % interval around `best`, a positive number: half-widths of ln, independent, in
/// quadrature, each end by itself. What a source does is the figure's change between its best guess
/// and its ends.
Ends<double> log_bounds(double best, const std::vector<ErrorSource>& sources,
                        const std::function<double(const Headline&)>& figure, double sampling);

/// Intervals of every number of the report that has one, in the report's order: step_time_s,
/// worker_step_time_s, samples_per_s, tokens_per_s, tokens_per_s_per_gpu, epoch_time_s,
/// train_time_s, memory.allocated_peak_bytes, memory.used_bytes, staleness.mean, cost.gpu_hours,
/// cost.usd, cost.energy_kwh, cost.co2_kg, goodput.expected_time_s.
std::vector<KeyBounds> intervals_of(const Report& report, const RunFacts& facts,
                                    const Sampling& sampling);

/// All keys that a report may have intervals of, in their order.
const std::vector<std::string>& interval_keys();

/// The interval of a number; nothing if it has none.
std::optional<Ends<double>> interval_of(const Report& report, std::string_view key);
/// Its ends in words: "880 ms to 1.02 s"; empty if it has none.
std::string range_text(const Report& report, std::string_view key, std::string (*text)(double));

}  // namespace rehearse::inline report
