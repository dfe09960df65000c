#pragma once

#include <optional>

#include "base/child_process.hpp"
#include "predict/predict.hpp"

namespace rehearse::inline prediction {

/// The part of a parameter server's training that all workers do in step before updates go stale
/// (ParameterServer::switch_share): simulated in a process of its own beside this one, to be
/// started before this process simulates.
class SynchronousPart {
 public:
  explicit SynchronousPart(const Scenario& scenario);

  /// Its samples per second; nothing where the scenario has no such part.
  std::optional<double> samples_per_s();

 private:
  std::optional<ChildProcess> child_;
};

}  // namespace rehearse::inline prediction
