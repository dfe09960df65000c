#pragma once

#include <optional>

#include "base/child_process.hpp"
#include "predict/predict.hpp"
#include "report/run_facts.hpp"

namespace rehearse::inline prediction {

/// The job on one node fewer, where a scenario goes on with fewer when one fails: simulated in a
/// process of its own beside this one, to be started before this process simulates.
class FewerNodes {
 public:
  explicit FewerNodes(const Scenario& scenario);

  /// Its samples per second over those of the whole job, and no more than 1; nothing where the
  /// scenario does not ask for it, or where it cannot run on one node fewer (a fabric or a group
  /// of another size).
  std::optional<double> speed(const RunFacts& whole);

 private:
  std::optional<ChildProcess> child_;
};

}  // namespace rehearse::inline prediction
