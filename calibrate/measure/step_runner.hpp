#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "measure/allocation_recording.hpp"
#include "measure/device.hpp"
#include "measure/loss_scaler.hpp"
#include "measure/operator_counter.hpp"
#include "measure/timed_optimizer.hpp"
#include "model/model.hpp"
#include "models/chain.hpp"
#include "profile/compute_profile.hpp"

namespace rehearse::inline calibrate {

/// One pass each way, unit by unit.
struct UnitSamples {
  std::vector<Seconds> forward, backward;
};

/// Bytes that each unit holds.
struct UnitBytes {
  std::vector<Bytes> saved;      ///< still there when the next unit begins
  std::vector<Bytes> workspace;  ///< the larger of forward's and backward's
};

/// Work of each unit's operators. The loss is the last unit's.
struct UnitOperators {
  std::vector<OperatorTotals> forward, backward;
};

/// Allocations that each unit takes from the CPU allocator and gives back, in order. The loss is
/// the last unit's; the gradient of a unit's output is the next unit's.
struct UnitAllocations {
  std::vector<std::vector<AllocationEvent>> forward, backward;
};

/// CPU time to launch what each unit runs, each way; 0 where the call is the work.
struct UnitLaunches {
  std::vector<Seconds> forward, backward;
};

/// The most bytes of a whole step, parameters included.
struct StepPeak {
  Bytes allocated;
  std::optional<Bytes> reserved;  ///< by the caching allocator, which held nothing unused before
};

/// Runs training steps of one chain on one device. The chain, the device and the optimizer outlive
/// it.
class StepRunner {
 public:
  /// In fp16 the loss is scaled.
  StepRunner(const Chain& chain, MeasuredDevice& device, Precision precision);

  /// A step whose units are timed each: around each unit's forward, and where the gradient of its
  /// output is ready. The loss is the last unit's.
  UnitSamples time_units(const Batch& batch);
  /// A step in which nothing inside is timed.
  StepTimes time_whole(const Batch& batch, TimedOptimizer& optimizer);
  /// The optimizer's step alone (in fp16 with the scaler's), on the gradients that are there.
  Seconds time_optimizer(TimedOptimizer& optimizer);
  /// A step whose units' bytes are counted.
  UnitBytes count_bytes(const Batch& batch);
  /// A step whose units' allocations are recorded, on the CPU.
  UnitAllocations record_allocations(const Batch& batch);
  /// A step whose units' operators are counted.
  UnitOperators count_operators(const Batch& batch);
  /// A step whose units' launches are timed. Before each unit the device is waited for, so that no
  /// launch waits for a full queue.
  UnitLaunches time_launches(const Batch& batch);
  /// A step whose peak is counted.
  StepPeak count_peak(const Batch& batch, TimedOptimizer& optimizer);
  /// Forward and backward; gradients stay.
  void make_gradients(const Batch& batch);

 private:
  /// Told when a step is between two units: `forward(i)` before unit i and, for i the number of
  /// units, after the loss; `backward(i)` where the gradient of unit i's output is ready, and
  /// `backward(-1)` at the end.
  struct Observer {
    std::function<void(int)> forward, backward;
  };
  void run_observed(const Batch& batch, const Observer& observer);
  torch::Tensor loss_of(const Batch& batch);
  void update(TimedOptimizer& optimizer);

  const Chain& chain_;
  MeasuredDevice& device_;
  Precision precision_;
  std::vector<torch::Tensor> parameters_;
  std::optional<LossScaler> scaler_;
};

}  // namespace rehearse::inline calibrate
