#pragma once

#include <functional>
#include <vector>

#include "explain/explanation.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline explanation {

/// How much is asked.
struct Questions {
  double more = 0.1;        ///< of each resource: 0.1 for 10 %
  std::size_t workers = 4;  ///< the slowest, one by one
};

/// An alternative whose result is still to be found, and the machine that answers it. A cumulative
/// one answers Alternative::cumulative of the cause with its name.
struct Experiment {
  Alternative question;
  std::function<Machine()> machine;
  bool cumulative = false;
};

/// All that is asked of a machine. What a scenario's costs are computed from (arithmetic, memory
/// bandwidth) is asked by `machine_of` with a changed copy of it. `scenario`, `machine` and
/// `machine_of` must stay.
std::vector<Experiment> experiments(const Scenario& scenario, const Machine& machine,
                                    const std::function<Machine(const Scenario&)>& machine_of,
                                    const Questions& questions);

/// The questions with what came of each experiment.
std::vector<Alternative> answered(const std::vector<Experiment>& experiments,
                                  const std::vector<Headline>& results);

/// The machine for as few steps as tell what a step takes: all where steps differ (not
/// steps_alike, a parameter server), else two after a warm-up of at most two. Sets the warm-up.
Machine shortened(Machine machine, std::uint32_t& warmup_steps);

}  // namespace rehearse::inline explanation
