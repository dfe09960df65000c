#pragma once

#include <memory>

#include "launch/rank_environment.hpp"
#include "measure/device.hpp"

namespace rehearse::inline calibrate {

/// Options of the device that a rank computes with.
struct RankDeviceOptions {
  bool cpu = false;         ///< the CPU though there are GPUs
  bool shares_gpu = false;  ///< ranks may share a GPU; NCCL's may not
  int threads = 0;          ///< of the host; 0: the rank's share of the node's cores
};

/// The cores of this node over its ranks, at least 1.
int threads_of_rank(int ranks_of_node);

/// A rank's device, made the current one: the GPU of its number on its node, else the CPU. Sets the
/// host threads, too. InputError where there are more ranks than GPUs that they may not share.
std::unique_ptr<MeasuredDevice> make_rank_device(const RankEnvironment& self,
                                                 const RankDeviceOptions& options);

}  // namespace rehearse::inline calibrate
