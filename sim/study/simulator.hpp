#pragma once

#include "study/sweep.hpp"

namespace rehearse::inline study {

/// This program as studies need it: a report without what belongs to its file, so that the same
/// content has the same text. Without `intervals` it is several times as fast, and results have
/// keys of their own; memory keeps its interval.
Simulator simulator(bool intervals = true);
/// The same without the largest batch that fits, which takes as long as the rest; its results have
/// keys of their own.
Simulator quick_simulator();

}  // namespace rehearse::inline study
