#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cost/roofline.hpp"

namespace rehearse::inline cost {

/// Operators of a captured model that no curve and no share is of, with what they take of a step,
/// the longest first.
std::vector<std::pair<std::string, Seconds>> unknown_kernels(const Model& model,
                                                             const Roofline& roofline,
                                                             double batch);

}  // namespace rehearse::inline cost
