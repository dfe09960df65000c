#pragma once

#include <cstdint>
#include <vector>

#include "engine/plans.hpp"

namespace rehearse::inline engine {

/// Every collective that a schedule's groups issue in one iteration, numbered: the members of a
/// group meet at the same number, whatever programs they run.
class CollectiveTable {
 public:
  CollectiveTable(const Schedule& schedule, Plans& plans);

  /// The number of the collective that an operation of a rank takes part in.
  std::uint32_t id(RankId rank, const Collective& collective, OpId op) const {
    const auto program = schedule_.ranks[rank.index()].program.index();
    const auto group = schedule_.ranks[rank.index()].groups[collective.group];
    return first_[group.index()] + position_[program][op.index()];
  }
  std::size_t size() const { return planned_.size(); }
  const PlannedCollective& planned(std::uint32_t id) const { return planned_[id]; }
  GroupId group(std::uint32_t id) const { return group_[id]; }

 private:
  const Schedule& schedule_;
  /// [program][op]: how many the program issued before in that slot.
  std::vector<std::vector<std::uint32_t>> position_;
  std::vector<std::uint32_t> first_;  ///< [group]
  std::vector<PlannedCollective> planned_;
  std::vector<GroupId> group_;
};

}  // namespace rehearse::inline engine
