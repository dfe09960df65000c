#pragma once

namespace rehearse::inline convergence {

/// How stale the updates of a run were until some moment.
struct PastStaleness {
  double mean = 0;    ///< of all of them
  double recent = 0;  ///< of the last ones: weighted by exp(-age / 20 updates)
};

/// Takes in one update after the other.
class PastStalenessMeter {
 public:
  void add(double staleness);
  /// Past staleness of those so far; there must be one at least.
  PastStaleness past() const { return {all_.mean(), recent_.mean()}; }

 private:
  struct Sum {
    double value = 0, weight = 0;
    double mean() const { return value / weight; }
  };
  Sum all_, recent_;
};

}  // namespace rehearse::inline convergence
