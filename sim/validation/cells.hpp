#pragma once

#include <string>

#include "validation/summary.hpp"

namespace rehearse::inline validation {

/// A cell with nothing to say.
inline const std::string kNothing = "-";

/// The value with its sign; what rounds to 0 has none but "+".
std::string signed_words(double value, int decimals);

/// Words that people read instead of a report's key: "step time", "peak memory"; the key itself
/// where it has no such words.
std::string metric_words(const std::string& metric);

/// The same of a compared number, and who says so: "accuracy, replay of own log".
std::string metric_words(const ComparedMetric& metric);

/// A metric's value with its unit: "12.3 ms", "1.98 updates", "1133 samples/s".
std::string value_words(const std::string& metric, double value);

// The cells of one compared number; kNothing where there is nothing to say.
std::string predicted_words(const ComparedMetric& metric);
std::string measured_words(const ComparedMetric& metric);
/// "11.8 to 12.9 ms"; of a forecast's verdict its odds: "24.0 % fail"; of
/// whether a step fits, "fits with 88 %".
std::string interval_words(const ComparedMetric& metric);
/// "-3.1 %", "+0.12", "0.08", "-0.85 points", "right".
std::string error_words(const ComparedMetric& metric);
std::string inside_words(const ComparedMetric& metric);  ///< "yes" or "no"

/// "92 % (11 of 12)".
std::string coverage_words(std::size_t inside, std::size_t intervals);

/// "2 cases have no prediction."
std::string failed_words(std::size_t failed);

/// "3 runs on AMD EPYC, 2026-11-20" for the recorded ones of a file; empty if there are none.
std::string measured_on(const CaseFile& file);

}  // namespace rehearse::inline validation
