#pragma once

#include <cstddef>
#include <vector>

#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// Trained parameters of a rank of a layout, which other ranks have, too, or other parts of.
struct Holding {
  Bytes size{};  ///< as parameters are stored
  double elements = 0;
  std::size_t ranks = 1;  ///< with the same ones, or parts of them
  std::size_t group = 0;  ///< these, as a slot
  bool sharded = false;   ///< each has a part
};

/// By stage (Program::stage): all that a rank holds, experts apart where other ranks have them.
std::vector<std::vector<Holding>> holdings_of(const Strategy& strategy, const Job& job);

}  // namespace rehearse::inline strategy
