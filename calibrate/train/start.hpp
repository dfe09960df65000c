#pragma once

#include "comm/process_group.hpp"
#include "models/chain.hpp"

namespace rehearse::inline calibrate {

/// Checks that all ranks have the same parameters in number, shape and type, and gives them rank
/// 0's weights and buffers.
void start_as_rank_0(const Chain& chain, const ProcessGroup& group);

}  // namespace rehearse::inline calibrate
