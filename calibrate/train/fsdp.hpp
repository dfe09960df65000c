#pragma once

#include <memory>

#include "train/trainer.hpp"

namespace rehearse::inline calibrate {

/// As torch.distributed.fsdp.FullyShardedDataParallel names them.
struct FsdpOptions {
  enum class Prefetch { none, backward_pre, backward_post };

  bool reshard_after_forward = true;  ///< full_shard; without it shard_grad_op
  Prefetch backward_prefetch = Prefetch::backward_pre;
  bool forward_prefetch = false;
  /// One reduce_scatter at a time, so that the gradients of one unit at most are kept for it.
  bool limit_reduce_scatters = true;
};

/// FullyShardedDataParallel: a flat padded buffer per unit of the chain, gathered around its
/// forward and its backward; each rank updates its shard. Units that share a weight are one flat
/// unit, which stays gathered from its first use in forward to the end of its backward, as FSDP's
/// root does.
std::unique_ptr<Trainer> make_fsdp(TrainerParts parts, const FsdpOptions& options = {});

}  // namespace rehearse::inline calibrate
