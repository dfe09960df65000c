#pragma once

#include <vector>

#include "config/key.hpp"

namespace rehearse::inline convergence {

/// The keys of a curve's file.
std::vector<Key> curve_keys();

}  // namespace rehearse::inline convergence
