#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "html/timeline.hpp"

namespace rehearse::inline html {

/// The part of a run that its page shows.
struct StepShown {
  std::uint32_t iteration = 0;
  Seconds from, to;
};

/// `memory` of run_extras.
nlohmann::ordered_json memory_pictures(const RunShown& run, const StepShown& step);

}  // namespace rehearse::inline html
