#pragma once

#include "base/quantity.hpp"
#include "comm/process_group.hpp"
#include "profile/collective_kind.hpp"

namespace rehearse::inline calibrate {

/// `size` as nccl-tests counts it, rounded up to whole floats on every rank.
Bytes measured_size(Bytes size, int ranks);

/// One collective on buffers of its own, which can be run again and again.
class RepeatedCollective {
 public:
  /// Makes a collective of the measured_size() of `size`.
  RepeatedCollective(const ProcessGroup& group, CollectiveKind kind, Bytes size,
                     torch::Device device);

  Bytes size() const { return size_; }

  /// Runs it once; on a GPU it may still be under way when this returns.
  void run();

  /// Floats that the collective left on this rank: the reduced, gathered, scattered or received
  /// ones.
  torch::Tensor result() const { return output_; }
  /// Floats that it starts from; all_reduce and broadcast work in place.
  torch::Tensor input() const { return input_; }

 private:
  void run_reduce_scatter();
  void run_send_recv();

  ProcessGroup group_;
  CollectiveKind kind_;
  Bytes size_;
  torch::Tensor input_, output_, scratch_;
  std::vector<torch::Tensor> input_parts_, output_parts_;
};

}  // namespace rehearse::inline calibrate
