#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// Groups of one kind among the ranks of a layout's stages, each rank in one of them.
struct LayoutGroups {
  /// What its ranks have in common: parameters that they share or average, the same shard of them
  /// (hybrid sharding), what is left of them after forward, the same experts and again these; or a
  /// layer that they compute together (`exchanges`).
  enum class Share {
    parameters,
    shard,
    after_forward,
    experts,
    expert_shard,
    experts_after_forward,
    layer
  };
  Share share = Share::layer;
  std::optional<ExchangeAxis> exchanges{};
  MeshAxis axis = MeshAxis::tensor;
  std::string name{};
  std::vector<std::vector<std::size_t>> groups{};

  std::size_t size() const { return groups.front().size(); }
};

/// All kinds that there are, in the order of their slots: those that share parameters come first,
/// and behind them those with the same shard (kSameShardGroup). InputError as shards_of_layout.
std::vector<LayoutGroups> layout_groups(const Strategy& strategy, const Job& job, const Mesh& mesh);

}  // namespace rehearse::inline strategy
