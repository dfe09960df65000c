#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/exchange.hpp"

namespace rehearse::inline model {

struct Model;
struct ModelShape;
struct TransformerShape;

/// How context parallelism attends to other ranks' tokens: keys and values go round in a ring (Liu
/// et al. 2023, arXiv:2310.01889; TransformerEngine's p2p), heads are exchanged for tokens (Jacobs
/// et al. 2023, arXiv:2309.14509; a2a), or keys and values are gathered (Llama 3,
/// arXiv:2407.21783).
enum class ContextMethod : std::uint8_t { ring, ulysses, all_gather };
const std::vector<std::string>& context_method_names();  ///< in the order of ContextMethod
std::string to_string(ContextMethod method);

/// How tokens reach the ranks of their experts.
enum class ExpertDispatch : std::uint8_t {
  /// Each goes to the rank of each of its experts (Megatron-LM's MoEAlltoAllTokenDispatcher).
  all_to_all,
  /// The same in two steps, inside nodes and then between them (Hwang et al. 2022, Tutel's 2DH,
  /// arXiv:2206.03382).
  hierarchical,
  /// Each goes once to every node that it has an expert on, and from there to the GPUs (DeepEP).
  deepep,
  /// The same by NVIDIA's kernels (DeepEP's branch hybrid-ep, deep_ep/hybrid_ep_buffer.py). Before,
  /// all ranks gather which experts each token has, a byte for each. A token carries the fp32
  /// probabilities of all experts of the NVLink domain that it goes to, and its gradient theirs.
  hybridep,
  /// Every rank gathers all tokens and takes its own (MoEAllGatherTokenDispatcher).
  all_gather,
  /// None does: the ranks have the same tokens, each computes its own experts', and an all_reduce
  /// adds up (transformers' DistributedConfig(enable_expert_parallel=True)).
  replicated
};
const std::vector<std::string>& expert_dispatch_names();  ///< in the order of ExpertDispatch
std::string to_string(ExpertDispatch dispatch);
/// Kernels of their own send a token once to each node and GPU, over NVLink.
constexpr bool sends_once(ExpertDispatch dispatch) {
  return dispatch == ExpertDispatch::deepep || dispatch == ExpertDispatch::hybridep;
}

/// The degrees along which one layer's work is split, in Megatron-LM's words.
struct ModelParallel {
  int tensor = 1;
  bool sequence_parallel = false;  ///< norms, dropouts and sums on 1/tensor of the tokens
  /// Exchanges of split tokens run beside the products that read or make them, piece by piece
  /// (TransformerEngine's user buffers, PyTorch's symmetric memory).
  bool tensor_overlap = false;
  /// Backward's exchanges of tensor ranks run beside the products of weights' gradients. False:
  /// backward waits for them (Megatron-LM's --no-async-tensor-model-parallel-allreduce).
  bool tensor_async = true;
  /// Tensor ranks exchange PyTorch's DTensors (torch/distributed/tensor/parallel): a product's
  /// gathered input is saved for its backward, and what is gathered or scattered along tokens, the
  /// second dimension, is copied (torch/distributed/_functional_collectives.py). False: Megatron's
  /// tokens come first, and inputs are gathered once more.
  bool dtensor = false;
  /// Heads gather their logits over tensor ranks, and each computes the whole loss (transformers'
  /// colwise_gather_output, DTensor's Replicate). False: the loss is of parts (Megatron-LM's
  /// parallel_output, PyTorch's loss_parallel).
  bool gather_logits = false;
  int context = 1;
  ContextMethod context_method = ContextMethod::ring;
  int expert = 1;
  int expert_tensor = 1;  ///< ranks that share an expert's products
  /// Ranks that have the same tokens and all but each other's experts; `expert` is 1 then.
  int replicated_experts = 1;
  ExpertDispatch dispatch = ExpertDispatch::all_to_all;
  int expert_nodes = 1;  ///< that `expert` ranks are on
  /// Shared experts compute beside dispatch and combine (moe_shared_expert_overlap).
  bool expert_overlap = false;
  /// Nodes that a token goes to at most (DeepSeek-V3's node-limited routing, arXiv:2412.19437,
  /// section 2.1.2); 0: to as many as its experts are on.
  int node_limit = 0;
  /// A token's experts follow one another, and so lie on few ranks; the next token's come behind
  /// them. So do gates of benchmarks (NeMo AutoModel's FakeBalancedGate, components/moe/layers.py;
  /// torchtitan's debug.moe_force_load_balance). False: any may be chosen beside any.
  bool consecutive_experts = false;
  /// Tokens of the fullest of `expert` ranks over their mean; every rank waits for that one. Of
  /// each layer with experts, whose last number is that of all behind it.
  std::vector<double> imbalance = {1};
  /// With tensor above 1 the vocabulary is padded to a multiple of this times `tensor`
  /// (make_vocab_size_divisible_by).
  std::int64_t vocabulary_multiple = 128;

  double imbalance_of(std::size_t expert_layer) const {
    return imbalance[expert_layer < imbalance.size() ? expert_layer : imbalance.size() - 1];
  }
  bool is_whole() const {
    return tensor == 1 && context == 1 && expert == 1 && expert_tensor == 1 &&
           replicated_experts == 1;
  }
  bool splits_tokens() const { return sequence_parallel && tensor > 1; }
  bool overlaps_tensor() const { return tensor_overlap && splits_tokens(); }
  bool gathers_logits() const { return gather_logits && tensor > 1; }
};

/// Rows of the embeddings of all tensor ranks together.
std::int64_t padded_vocabulary(std::int64_t vocabulary, const ModelParallel& parallel);

/// The dimensions of what one rank holds: its heads, its part of each feed-forward layer and of the
/// vocabulary, its experts' width. Where key-value heads are fewer than ranks,
/// several attend to one (TransformerShape::kv_ranks).
TransformerShape share_of(const TransformerShape& whole, const ModelParallel& parallel);

/// The model as one rank computes and holds it (Shoeybi et al. 2019, arXiv:1909.08053; Korthikanti
/// et al. 2022, arXiv:2205.05198; Megatron-LM): the same units with smaller widths, fewer tokens,
/// and what they exchange (Unit::exchanges, Unit::shares). A sample is still a sequence of the
/// whole model's length; Model::tokens_per_sample and input_elements are this rank's. Experts get
/// as many tokens as they would if all were chosen alike, times `imbalance`.
///
/// The layout must keep the rules of layout_findings. Throws as transformer_model does.
Model share_of(const TransformerShape& whole, const ModelShape& shape,
               const ModelParallel& parallel);

/// Elements of the gradients that are summed over the tensor group once per step.
double summed_elements(const Model& share);

}  // namespace rehearse::inline model
