#pragma once

#include <string>

#include "report/report.hpp"

namespace rehearse::inline view {

/// The sentences that stand first in every view of a run: whether it fits and how
/// surely, how fast it trains, how long and for how much money, and what bounds it. Figures have
/// the digits that their 90 % intervals deserve (place_of).
std::string answer(const Report& report);

}  // namespace rehearse::inline view
