#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "planner/plan.hpp"

namespace rehearse::inline planner {

/// Names that `search.parallelism` takes.
enum class LayoutAxis : std::uint8_t {
  framework,  ///< one of `search.framework`, or that of all
  sharding,   ///< before the others: it sets the whole strategy, and they keys of it
  tensor,
  pipeline,
  context,
  expert,
  virtual_stages,
  micro_batch,
  recompute,
  compile
};
const std::vector<std::string>& layout_axis_names();  ///< in the order of LayoutAxis

/// Puts layouts into a plan: each point of its study becomes one for every layout that is legal
/// there, and Plan::illegal counts the others by the rule that they break first.
///
/// Degrees are divisors: `tensor` of a node's GPUs, `pipeline` of all GPUs, up to the blocks,
/// `context` of all GPUs while a rank keeps kLeastTokens tokens, `expert` of the experts,
/// `virtual_stages` of the blocks, up to kMostVirtualStages. `micro_batch` is 1, 2, 4, 8. `compile`
/// is tried of FSDP, which is eager else; Megatron-LM's kernels are fused anyway. With tensor above
/// 1 goes sequence parallelism, with virtual stages interleaved 1F1B, with expert above 1
/// expert_tensor_parallel 1. What is not searched stays as the scenario has it.
/// `train.global_batch` is held: where it is no whole number of micro-batches the layout is not
/// legal.
///
/// `parallelism`: the list in the plan's file. InputError there: no transformer, no global batch,
/// nothing legal; or at the key of the scenario that stands against it. `frameworks`: those that
/// are compared; without them all layouts have the scenario's, or Megatron-LM's.
void add_layouts(Plan& plan, const Value& parallelism, const std::optional<Value>& frameworks);

inline constexpr std::int64_t kLeastTokens = 1024;
inline constexpr std::int64_t kMostVirtualStages = 8;
inline constexpr int kMostSamples = 8;

}  // namespace rehearse::inline planner
