#pragma once

#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "comm/wire_bytes.hpp"
#include "profile/collective_kind.hpp"
#include "train/step_memory.hpp"

namespace rehearse::inline calibrate {

/// One collective of a step; its times count from the step's begin.
struct CollectiveTimes {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::string what;  ///< "bucket 0", or the unit's name
  Bytes size;        ///< of the whole buffer, as nccl-tests counts it
  Seconds launched;
  Seconds done;
};

/// Measurements of one rank in one training step.
struct StepRecord {
  Seconds forward, backward, optimizer;  ///< of all micro-batches together
  Seconds whole;
  Seconds
      waited;  ///< in which the rank did nothing but wait for collectives: exposed communication
  WireBytes wire;  ///< over this process's TCP sockets; nothing under NCCL
  std::vector<CollectiveTimes> collectives;  ///< in the order of their launch
  /// DDP: when each parameter's gradient was ready, from the begin of the last backward, in the
  /// order of parameters. What any other bucketing can be simulated from.
  std::vector<Seconds> gradient_ready;
  StepMemory memory;
  double loss = 0;  ///< mean of the micro-batches on this rank
};

}  // namespace rehearse::inline calibrate
