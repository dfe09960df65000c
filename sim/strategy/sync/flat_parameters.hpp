#pragma once

#include <vector>

#include "strategy/optimizer_step.hpp"
#include "strategy/sharded_parameters.hpp"

namespace rehearse::inline strategy {

/// What FSDP wraps as one: a run of units [first, last] whose parameters form one flat, padded
/// buffer.
struct FlatParameter {
  std::size_t first = 0, last = 0;
  /// Units behind these that it holds, too: the root's, around the blocks. They have no run.
  std::vector<std::size_t> apart{};
  bool root = false;          ///< stays gathered from forward until backward is over
  std::int64_t elements = 0;  ///< padded to a multiple of the sharding group's ranks
  std::int64_t trained = 0;   ///< those with a gradient, likewise
  Bytes others;               ///< of frozen tensors that are not kept as the precision says
  Bytes scales;               ///< of quantized weights, which are no parameters: whole on each rank
  StoredAs storage = StoredAs::model;  ///< of what is trained
  std::int64_t graded =
      0;  ///< elements that gradients are made of: `trained`, or all that are flat
  /// Of experts, where other ranks share these (torchtitan's dp_mod_ep mesh): padded to a multiple
  /// of their number; all the others do not count them.
  std::int64_t experts = 0, trained_experts = 0;
  /// Modules inside it that a policy by size wraps by themselves: their hooks run one by one, while
  /// their parameters travel together here.
  double wrapped_modules = 0;

  double own(const Shards& shards) const { return shared(elements, experts, shards); }
  double own_graded(const Shards& shards) const { return shared(graded, trained_experts, shards); }
  std::int64_t own_trained(const Shards& shards) const {
    return trained / shards.all + trained_experts / shards.experts;
  }

 private:
  static double shared(std::int64_t all, std::int64_t of_experts, const Shards& shards) {
    return static_cast<double>(all) / static_cast<double>(shards.all) +
           static_cast<double>(of_experts) / static_cast<double>(shards.experts);
  }
};

/// Cuts a model's units as the wrap policy says. Units without parameters join the run before them
/// (or after, at the start). A model without parameters gives no runs. `apart`: other ranks share
/// the experts.
std::vector<FlatParameter> wrap(const Model& model, const ShardedParameters& options,
                                Precision precision, const Shards& shards, bool apart = false);

}  // namespace rehearse::inline strategy
