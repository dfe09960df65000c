#pragma once

#include <vector>

#include "config/key.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline scenario {

/// `train.like: {data_parallel: 20B}` (the loss of plain synchronous training on so many tokens)
/// and `train.to: {accuracy: 0.759}` (a target of reference points) say how long the training is,
/// in the place of epochs, tokens or steps. The model, the cluster and the strategy must be known.
/// InputError where no public row speaks of it.
void apply_loss(const Value& train, Scenario& scenario);

/// What the length that a scenario says leaves out of its loss; nothing where nobody knows, or its
/// own curves say it.
void say_loss(Scenario& scenario);

/// Keys of both, without `train.`.
std::vector<Key> loss_keys();

}  // namespace rehearse::inline scenario
