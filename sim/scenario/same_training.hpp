#pragma once

#include <string>
#include <vector>

#include "convergence/fitted_curves.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline scenario {

/// In what curves may have trained something else than a scenario: network, data, optimizer.
const std::vector<std::string>& kinds_of_difference();

/// A network has the curves' name and, where that is a built-in one's whose images are known
/// (MNIST, Fashion-MNIST, CIFAR-10), as many parameters as it has for them.
TrainingMatch match_training(const FittedCurves& curves, const Scenario& scenario);

}  // namespace rehearse::inline scenario
