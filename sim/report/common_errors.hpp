#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "report/report.hpp"

namespace rehearse::inline report {

/// By source of error, the logarithm of the step time over its best estimate at both ends of the
/// source's 90 % interval.
using ErrorShifts = std::map<std::string, std::pair<double, double>>;
ErrorShifts shifts_of(const std::vector<ErrorSource>& sources);
/// The same of a report's mechanisms of time.
ErrorShifts shifts_of(const std::vector<Mechanism>& mechanisms);

/// What is off in one layout and not in another of the same machine: two sides never share it.
inline constexpr const char* kOwnError = "this layout";

/// The 90 % interval of ln(second over first) about its best estimate, where each source moves both
/// by what it moves each. What it moves them by together cancels, but for kOwnError, and sources
/// add in quadrature. Sides that nothing tells apart have no width.
Ends<double> together(const ErrorShifts& first, const ErrorShifts& second);

/// The probability that a ratio is above 1, of which the best estimate and the 90 % interval are
/// known. Its logarithm is normal on either side of the best estimate.
double chance_above_one(double ratio, const Ends<double>& interval);

/// From here on one of two is called better; below, they are tied.
inline constexpr double kSureChance = 0.95;

/// "over 99 %", "93 %", "under 1 %".
std::string chance_words(double chance);

}  // namespace rehearse::inline report
