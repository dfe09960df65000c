#pragma once

#include "base/ends.hpp"
#include "base/quantity.hpp"
#include "rollout/rl_options.hpp"

namespace rehearse::inline rollout {

/// What an exchange of weights takes, and between what published ones of its kind lie.
struct Refit {
  Seconds time;
  Ends<Seconds> ends;
};

/// Of a network with so many parameters, which travel in 16 bits: as the section says, else by
/// kind (platforms/refits.yaml). Colocated, a GPU takes its tensor rank's part alone.
Refit refit_of(const RlOptions& options, double parameters);

/// A trainer that sleeps (`generator.trainer_sleeps`) waits until so many bytes of a GPU come back
/// from the host, and go there again. The section has the rate, else platforms/refits.yaml.
Refit sleep_of(const RlOptions& options, Bytes bytes);

/// What a trainer needs before log-probabilities, and before training (platforms/refits.yaml).
Seconds preparation();

}  // namespace rehearse::inline rollout
