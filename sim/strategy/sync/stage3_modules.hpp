#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "strategy/sync/stage3_fetches.hpp"

namespace rehearse::inline strategy {

/// A module with parameters that are partitioned, and what of its unit's time goes by until the
/// next one's turn.
struct PartitionedModule {
  std::size_t unit = 0;
  std::int64_t elements = 0, trained = 0;
  double forward_flops = 0, backward_flops = 0;
};

/// A model's modules, and the costs of its units with the hooks of their modules. A builder plays
/// of a unit the first module alone; the others come one by one.
struct Stage3Modules {
  std::vector<PartitionedModule> all;
  std::vector<std::pair<std::size_t, std::size_t>> of_unit;  ///< first and end
  std::vector<std::pair<Seconds, Seconds>> whole;            ///< by unit: forward and backward
  StepCosts costs;
  std::vector<Stage3Use> uses;
  std::int64_t persistent = 0;  ///< elements that stay whole

  Stage3Modules(const DeepspeedZero3& options, const Job& job, const StepCosts& costs);
  /// Of its unit's time.
  double share(std::size_t module, bool backward) const;

 private:
  void split_costs(const Unit& of, std::size_t unit, const DeepspeedZero3& options,
                   bool checkpointed);
  double weight(std::size_t module, bool backward) const;
};

}  // namespace rehearse::inline strategy
