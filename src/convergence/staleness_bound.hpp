#pragma once

#include <cstdint>

namespace rehearse::inline convergence {

/// More is refused: what one point of a forecast takes grows with it.
constexpr std::uint32_t kMostStaleness = 10'000;

}  // namespace rehearse::inline convergence
