#pragma once

#include <map>
#include <optional>
#include <vector>

#include "mesh/pipeline_order.hpp"
#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// What one rank of a pipeline does of a step, as its program says it: which units each of its
/// chunks has, what it computes when, and with whom it exchanges.
struct StagePlan {
  struct Part {
    std::size_t first = 0, end = 0;  ///< of Job::model's units
    /// Groups of two, as slots: where its input comes from and its output goes, and the same of
    /// gradients. Nothing: the batch, the loss, or another chunk of this rank.
    std::optional<std::size_t> input{}, output{}, output_gradient{}, input_gradient{};
  };
  std::vector<Part> parts;
  std::vector<PipelineAction> order;
  std::vector<bool> beside_next{};  ///< by action (side_by_side()); empty: each runs alone
  /// Computations before its own by which a rank asks for what it needs.
  std::size_t receives_ahead = 0;
  /// Instead: every receive, in the order in which it is asked for.
  std::vector<AskedInput> asks{};
  /// A computation waits until what the one before it made has been sent: both go as one batch of
  /// sends and receives (1F1B of Megatron-LM and of torch.distributed.pipelining).
  bool waits_for_sends = false;
  bool records_streams = false;  ///< not Layout::avoid_record_streams
  /// Ranks that have the same of what passes between stages: each sends its part, and who receives
  /// them gathers the whole (scatter_gather_tensors_in_pipeline of Megatron-LM).
  std::size_t alike = 1;
  /// Ranks that share its parameters, or their optimizer.
  std::size_t replicas = 1;
  /// Groups, as slots, of the ranks that share a layer, a sequence or experts.
  std::map<ExchangeAxis, std::size_t> exchange_groups{};
  int dispatch_sms = 0;      ///< Layout::dispatch_sms
  std::size_t contexts = 1;  ///< ranks that share a sequence
  /// Group, as a slot, of the ranks with the same experts, where it is another than that of
  /// replicas; and how many they are.
  std::optional<std::size_t> expert_replicas_group{};
  std::size_t expert_replicas = 1;
  /// Groups, as slots, of the ranks with the same shard (hybrid sharding), and of those that share
  /// what is left after forward (Fsdp::post_forward_group); of experts, where these are others.
  std::optional<std::size_t> same_shard_group{}, after_forward_group{};
  std::optional<std::size_t> expert_same_shard_group{}, expert_after_forward_group{};
  bool stage_alone = false;  ///< of no pipeline: micro-batches come one after the other
  int micro_batches = 1;     ///< of such a step
  int steps = 1;             ///< training steps of an iteration, each in this order
  /// Group of the ranks that hold the weight which embeddings and logits share, as a slot.
  std::optional<std::size_t> shared_weight_group{};
  std::int64_t shared_weight = 0;  ///< its elements

  /// Of a rank alone: micro-batch by micro-batch, forward and backward.
  static StagePlan alone(const Model& model, int micro_batches);
  /// Whether an action, which there may be none of, runs beside the next one.
  bool is_beside_next(std::size_t action) const {
    return action < beside_next.size() && beside_next[action];
  }
  /// Behind which action the given one, or asking for what it needs, begins; nothing: the first.
  std::optional<std::size_t> before(std::size_t action) const;
  /// Whether it exchanges with other stages.
  bool pipelined() const;
  /// The most micro-batches of a part that are between forward and backward.
  int most_in_flight() const;
  /// The most forwards of a part whose input was asked for before their turn.
  int most_asked_ahead() const;
  /// Sets of tensors that these need.
  int slots() const;
};

}  // namespace rehearse::inline strategy
