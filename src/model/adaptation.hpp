#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/model.hpp"

namespace rehearse::inline model {

/// Low-rank adapters beside linear layers (Hu et al., "LoRA", ICLR 2022), as PEFT's Linear runs
/// them: y = W x + s B A dropout(x). All but the adapters is frozen. Their scale s = alpha / rank
/// changes neither time nor memory.
struct Lora {
  std::int64_t rank = 8;
  /// Names of linear layers as linear_names() has them; "all_linear": all but the logits.
  std::vector<std::string> targets = {};
  StoredAs storage = StoredAs::model;  ///< of A and B
  bool dropout = false;
  /// Embeddings and logits that are copied and trained whole ("embeddings", "lm_head").
  std::vector<std::string> modules_to_save = {};
};

/// Part of a network that is trained, and how the rest is kept.
struct Adaptation {
  std::vector<bool> frozen = {};  ///< by Model::units; empty: none
  std::optional<Lora> lora = std::nullopt;
  /// Storage of the weights of frozen linear layers but the logits'; each use makes 16 bits of
  /// them.
  StoredAs linear = StoredAs::model;
  /// bitsandbytes before 0.43 saves the inputs of frozen 4-bit products.
  bool keeps_inputs = false;
  bool logits = false;  ///< the logits' weight is one of these, too
  /// Storage of all other frozen tensors (PEFT's prepare_model_for_kbit_training makes them fp32).
  StoredAs others = StoredAs::model;
};

/// Names of a network's linear layers, each once, in forward order: q, k, v, o, gate, up, down,
/// lm_head; qkv and gate_up where they are one product. Those of experts have no names.
std::vector<std::string> linear_names(const Model& model);

/// The name that linear_names() has for a layer that Hugging Face's models call `name`: "q" for
/// "q_proj".
std::string linear_name(const std::string& name);

/// Freezes and adapts a computed network: its tensors' traits, its layers' adapters and what its
/// operators do in backward. Adapters' tensors come after their unit's own. std::invalid_argument
/// with a message for the user where a target is no layer of it, or nothing is left to train.
Model adapt(Model model, const Adaptation& adaptation);

/// Megatron-LM's selective recomputation (Korthikanti et al. 2022, arXiv:2205.05198): attention
/// keeps its inputs, and computes its scores and its output once more in backward.
Model recomputing_attention(Model model);

/// Lets adapters that are kept in fp32 compute in 16 bits: FSDP's param_dtype gathers them as what
/// the network computes in, and nothing is converted for them.
void compute_adapters_in_16_bits(Model& model);

/// Blocks' linear layers as torchao's Float8Linear runs them, experts not; in front of compiled().
Model with_float8(Model model, Float8 recipe);

/// torch.compile: runs of pointwise kernels and norms become one kernel, whose intermediate results
/// are not written; and products' columns are padded to whole vectors (Inductor's shape_padding).
Model compiled(Model model, Compile what = Compile::whole);

}  // namespace rehearse::inline model
