#pragma once

#include "collective/nccl_model.hpp"

namespace rehearse::inline collective {

/// From this version on NCCL connects what is used (NCCL_RUNTIME_CONNECT); before, all at once.
inline constexpr NcclVersion kConnectsLate{2, 22};

/// Counts what a communicator of several ranks takes of a GPU outside PyTorch's allocator, where
/// NCCL connects all at once. A connection that receives has 10 MiB: 4 of Simple, the rest of LL128
/// and LL (10,485,760 B in NCCL's own log, issue 1685). A channel has three, its ring's and a
/// tree's from above and below; memory is linear in channels (issue 986). NVLS has 4 MiB up and
/// down for each of its channels and ranks of the node (src/transport/nvls.cc: nvlsTotalSize).
Bytes nccl_buffers(const NcclMachine& machine);

}  // namespace rehearse::inline collective
