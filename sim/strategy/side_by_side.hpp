#pragma once

#include <cstddef>
#include <vector>

#include "mesh/pipeline_order.hpp"
#include "schedule/schedule.hpp"

namespace rehearse::inline strategy {

/// By action of an order, whether it runs beside the next one: a forward and a backward of two
/// micro-batches, of which one computes while the other's tokens are on their way to experts.
/// DualPipe's steps say so of a forward and the backward behind it; Megatron-LM's
/// overlap_moe_expert_parallel_comm of a backward and the forward behind it, since of 1F1B's last
/// stage each backward is that of the forward before it.
std::vector<bool> side_by_side(const std::vector<PipelineAction>& order, bool forward_first);

/// Operations [first, second) and [second, end) of a program, of two such actions.
struct SideBySide {
  std::size_t first = 0, second = 0, end = 0;
};

/// Has each pair's operations take turns: pieces of both, each up to the end of exchanges on
/// `lanes`, spread evenly; the second's last one is the last. Pairs ascend and do not overlap.
/// Nothing of the second may come after anything of the first.
void interleave(Program& program, const std::vector<SideBySide>& pairs,
                const std::vector<LaneId>& lanes);

}  // namespace rehearse::inline strategy
