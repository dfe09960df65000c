#pragma once

#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// What a rank gives and takes in the outer steps of local SGD.
struct OuterShare {
  double elements = 0;  ///< of the parameters, that it exchanges with other replicas
  Bytes element;        ///< as parameters are stored
  /// Parameters that others of its replica exchange parts of, and these others, as a slot.
  struct Held {
    Bytes size{};
    std::size_t group = 0;
  };
  std::vector<Held> held{};
  std::size_t outer_group = 0;  ///< of those that exchange the same in other replicas, as a slot
  Precision precision = Precision::fp32;
};

/// A period of local SGD: as many copies of a training step as it has steps, and the outer steps of
/// its fragments between them. InputError (without a place) where that is too long to be simulated.
Program local_period(const Program& step, const LocalSgd& options, const OuterShare& share,
                     const StepCosts& costs);

}  // namespace rehearse::inline strategy
