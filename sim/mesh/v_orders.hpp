#pragma once

#include <vector>

#include "mesh/pipeline_order.hpp"

namespace rehearse::inline mesh {

/// Schedules in which a rank has two chunks: on the way there, and on the way back from the last
/// rank.
std::vector<PipelineAction> zbv_order(int rank, int ranks, int micro_batches);
std::vector<PipelineAction> dual_pipe_v_order(int rank, int ranks, int micro_batches);

}  // namespace rehearse::inline mesh
