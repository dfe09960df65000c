#include "convergence/past_staleness.hpp"

#include <cmath>

namespace rehearse::inline convergence {

void PastStalenessMeter::add(double staleness) {
  constexpr double kRecent = 20;  // updates
  const double kept = std::exp(-1 / kRecent);
  all_ = {all_.value + staleness, all_.weight + 1};
  recent_ = {kept * recent_.value + staleness, kept * recent_.weight + 1};
}

}  // namespace rehearse::inline convergence
