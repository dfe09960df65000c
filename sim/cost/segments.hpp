#pragma once

#include <cstddef>
#include <vector>

#include "base/quantity.hpp"
#include "model/exchange.hpp"
#include "model/model.hpp"

namespace rehearse::inline cost {

class Roofline;

/// A pass of a unit, cut where it exchanges.
struct PassSegments {
  struct Placed {
    std::size_t exchange = 0;  ///< index into Unit::exchanges
    std::size_t issued = 0;    ///< once so many segments are done
    std::size_t awaited = 0;   ///< by the segment of this index: it and what follows wait for it
  };
  std::vector<Seconds> durations;  ///< in the order of the pass; at least one, some may be 0
  std::vector<Placed> exchanges;   ///< in the order in which they are issued
};

/// An operator's time as its rank's share, over what it took whole in a record: of products as
/// the roofline says of both shapes, else by the number of ranks.
double share_factor(const recorded::Operator& one, Direction pass, const Roofline& roofline,
                    double batch);

/// The segments of a pass that takes `whole`: cut by what the roofline says of the operators, and
/// of a product's two gradients; of a recorded unit by what was measured of them. They sum to
/// `whole`.
PassSegments segments(const Unit& unit, Direction pass, const Roofline& roofline, double batch,
                      Seconds whole);

}  // namespace rehearse::inline cost
