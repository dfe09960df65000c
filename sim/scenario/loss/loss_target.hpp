#pragma once

#include <string>
#include <vector>

#include "config/key.hpp"
#include "convergence/loss_cost.hpp"
#include "convergence/workloads.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline scenario {

/// `train.to: {accuracy: 0.759}`: sets the scenario's length to the samples that come to a target,
/// by reference points or by the user's own runs, and says with which interval. InputError where
/// nobody knows.
LossCost cost_to(const Value& value, Scenario& scenario);
std::vector<Key> target_keys(const std::string& prefix);

/// Reference points of a network, and ends of runs of one length with the scenario's optimizer;
/// null where there are none.
const Workload* workload_of(const std::string& network);
const FixedLength* length_of(const Scenario& scenario);
/// The end whose batch is nearest, for what it came to.
const EndByBatch& end_near(const FixedLength& length, double batch);

/// Makes the training so many samples long.
void set_samples(double samples, Scenario& scenario);

}  // namespace rehearse::inline scenario
