#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "measure/step_runner.hpp"

namespace rehearse::inline calibrate {

/// Samples of one batch size, until they become a point. The chain and the device outlive them.
class BatchSamples {
 public:
  BatchSamples(const Chain& chain, MeasuredDevice& device, Precision precision, std::int64_t size);

  /// One step of each kind.
  void warm_up();
  /// Counts what does not vary: operators, bytes and the peak; also how long launches take.
  void count();
  /// The first step after another batch size finds foreign data in the caches, as no step of a
  /// training run does: it does not count. The two kinds of step take turns in going first.
  void repeat();
  BatchPoint point() const;

 private:
  UnitTimes unit(std::size_t i) const;

  const Chain& chain_;
  StepRunner runner_;
  std::unique_ptr<TimedOptimizer> optimizer_;
  std::int64_t size_;
  Batch batch_;
  UnitOperators operators_;
  UnitBytes bytes_;
  StepPeak peak_;
  std::vector<UnitLaunches> launches_;
  std::vector<UnitSamples> units_;
  std::vector<StepTimes> whole_;
};

}  // namespace rehearse::inline calibrate
