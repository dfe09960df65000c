#pragma once

#include <string>

#include "measure/device.hpp"
#include "models/chain.hpp"
#include "train/step_memory.hpp"

namespace rehearse::inline calibrate {

/// Follows the allocator through one step after the other, part by part. On a GPU too it counts in
/// the order in which the host asks, without waiting for the device.
class MemoryWatch {
 public:
  explicit MemoryWatch(MeasuredDevice& device) : device_(device) {}

  /// Begins a step, and its first part.
  void begin();
  /// Ends a part; what comes now is the next one's.
  void end_part(const std::string& phase, const std::string& unit = {});
  /// Ends the step.
  StepMemory finish();

 private:
  /// Raises the step's peaks by those since the last call, and gives the one of tensors.
  Bytes take_peak();

  MeasuredDevice& device_;
  StepMemory step_;
};

/// Forward of all units and the loss, as forward_loss(); each unit's forward is a part, and in the
/// loss's backward() each unit's but the first's: end that after the call.
torch::Tensor watched_loss(const Chain& chain, const Batch& batch, MemoryWatch& watch);
/// `value` is the unit's output: the unit after it is through with its backward when the gradient
/// of this is ready.
void watch_backward(const Chain& chain, std::size_t unit, const torch::Tensor& value,
                    MemoryWatch& watch);
/// After backward(): ends the first unit's.
void end_backward(const Chain& chain, MemoryWatch& watch);

}  // namespace rehearse::inline calibrate
