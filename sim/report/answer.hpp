#pragma once

#include <string>

#include "report/report.hpp"

namespace rehearse::inline report {

/// The sentences that stand first in every view of a run: whether it fits and how
/// surely, how fast it trains, how long and for how much money, and what bounds it. Figures have
/// the digits that their 90 % intervals deserve (place_of).
std::string answer(const Report& report);

/// The probability that a GPU's memory suffices, where the 90 % interval of what is used is that of
/// a lognormal figure; nothing where the capacity or the interval is not known.
std::optional<double> probability_of_fitting(const Report& report);

}  // namespace rehearse::inline report
