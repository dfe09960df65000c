#include "cost/early_stop.hpp"

#include "cost/roofline.hpp"
#include "model/recomputation.hpp"

namespace rehearse::inline cost {

Seconds unneeded_time(const Unit& unit, const Roofline& roofline, double batch) {
  Seconds sum{0};
  for (std::size_t op = rerun_operators(unit); op < unit.operators.size(); ++op)
    sum += roofline.time(unit.operators[op], batch, Direction::forward);
  return sum;
}

}  // namespace rehearse::inline cost
