#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/model.hpp"

namespace rehearse::inline model {

/// Parts of a block that run once more in backward: Megatron-LM's recompute_modules by their names
/// there (core/transformer/transformer_config.py).
enum class RecomputedModule : std::uint8_t {
  core_attn,    ///< attention between its products
  layernorm,    ///< the norms before attention and before the feed-forward layer
  mla_up_proj,  ///< of latent attention the products of low-rank queries and keys
  mlp,          ///< feed-forward layers without experts
  moe,          ///< layers of experts, whole
  moe_act,      ///< what stands between the experts' products
  shared_experts
};
const std::vector<std::string>& recomputed_module_names();  ///< in the order of RecomputedModule

/// torchtitan's selective checkpointing by operators (distributed/activation_checkpoint.py): a
/// block keeps what attention, reduce_scatter and all_to_all put out, and products without a bias,
/// each `every`th dropped. All else is made again, routers' and grouped products among it.
struct KeptProducts {
  int every = 2;  ///< 2: every second product is dropped; 0: none is
};

/// Parts of each block that are made again in backward, and not kept until then.
struct Recomputation {
  std::vector<RecomputedModule> modules = {};
  std::optional<KeptProducts> products = std::nullopt;

  bool any() const { return !modules.empty() || products.has_value(); }
};

/// The model with that: its operators run once more in backward, and its tape takes again what
/// forward gives back at its unit's end.
Model recomputing(Model model, const Recomputation& recomputation);

/// Operators of a unit that torch.utils.checkpoint(use_reentrant=False) runs again: it stops once
/// the last tensor is there that backward needs (set_checkpoint_early_stop). A product saves what
/// it reads, and a sum nothing. So the last product does not run where sums alone stand behind it,
/// and no adapter beside it.
std::size_t rerun_operators(const Unit& unit);

/// Which of the modules the network lacks; empty: it has all.
std::string missing_module(const Model& model, const Recomputation& recomputation);

}  // namespace rehearse::inline model
