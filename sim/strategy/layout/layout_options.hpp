#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mesh/mesh.hpp"
#include "mesh/pipeline_order.hpp"
#include "model/parallel.hpp"

namespace rehearse::inline model {
struct TokenHistogram;
}

namespace rehearse::inline strategy {

/// A replica of the model over a mesh of ranks, in micro-batches. Names and defaults are
/// Megatron-LM's and torchtitan's.
struct Layout {
  Mesh mesh{};  ///< Mesh::data: as the cluster allows (mesh_on)
  /// ModelParallel::tensor_overlap: TransformerEngine's tp_comm_overlap, or PyTorch's
  /// asynchronous tensor parallelism.
  bool tp_comm_overlap = false;
  bool tensor_async = true;  ///< ModelParallel::tensor_async
  bool dtensor = false;      ///< ModelParallel::dtensor
  /// What asynchronous collectives of tensor ranks read and write is kept until somebody waits for
  /// them; false: recorded on their stream, and reused once the host sees that this is through
  /// (PyTorch's TORCH_NCCL_AVOID_RECORD_STREAMS).
  bool avoid_record_streams = true;
  bool sequence_parallel = false;  ///< norms and sums on each tensor rank's own tokens
  bool gather_logits = false;      ///< each tensor rank has all logits, and the whole loss
  ContextMethod context_method = ContextMethod::ring;
  ExpertDispatch dispatch = ExpertDispatch::all_to_all;  ///< of Mesh::expert ranks
  bool expert_overlap = false;  ///< shared experts compute beside dispatch and combine
  /// One micro-batch computes beside another's dispatch and combine; nothing: as the schedule does.
  std::optional<bool> expert_comm_overlap{};
  /// Multiprocessors that the dispatcher's own kernels take (DeepEP's num_sms); 0: NCCL's dispatch.
  int dispatch_sms = 0;
  int node_limit = 0;               ///< nodes that a token goes to at most; 0: any
  bool fake_balanced_gate = false;  ///< ModelParallel::consecutive_experts
  /// Tokens of the fullest expert rank over their mean; nothing: balanced, and nobody says so.
  std::optional<double> imbalance{};
  std::shared_ptr<const TokenHistogram> histogram{};  ///< or what that comes from, by layer
  /// `mesh.expert` ranks share embedding tables, and no experts (embedding_parallel).
  bool shares_tables = false;
  bool natural_routing = false;  ///< `imbalance` is natural_imbalance() of the network's experts
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int virtual_stages = 1;             ///< chunks of the model on each rank of a pipeline
  std::vector<std::int64_t> split{};  ///< blocks of each stage; empty: equal parts
  enum class Balance { none, time, memory };
  Balance balance =
      Balance::none;  ///< what `split` evens out (balanced_split()); none: it is given
  std::optional<PipelineOrder> order{};  ///< read from a file, in the place of `schedule`
  std::string order_file{};
  /// Tensor ranks without sequence parallelism each send their part of what goes between stages, as
  /// Megatron-LM's option of that name has it; else the whole.
  bool scatter_gather_tensors_in_pipeline = true;
  /// A rank's list of actions has its receives, which it asks for as asked_behind() says
  /// (torch.distributed.pipelining); else it asks for what its next computation needs before this
  /// one.
  bool lists_receives = false;
  /// The engine of a pipeline holds the last stage's logits while it goes back.
  bool holds_outputs = false;
  int micro_batches = 1;  ///< of a step, of a replica of the model
  /// A step is so many rounds of the schedule, between which the pipeline drains; each has its part
  /// of the micro-batches.
  int gradient_accumulation = 1;

  /// Whether experts' tokens are even because nobody says how they fall.
  bool takes_even_routing() const {
    return mesh.expert > 1 && !shares_tables && !imbalance && !histogram && !fake_balanced_gate &&
           !natural_routing;
  }
};

}  // namespace rehearse::inline strategy
