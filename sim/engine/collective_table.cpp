#include "engine/collective_table.hpp"

namespace rehearse::inline engine {

CollectiveTable::CollectiveTable(const Schedule& schedule, Plans& plans) : schedule_(schedule) {
  for (const Program& program : schedule.programs) {
    std::vector<std::uint32_t> issued, positions(program.ops.size(), 0);
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      const auto* collective = std::get_if<Collective>(&program.ops[i].work);
      if (!collective) continue;
      if (collective->group >= issued.size()) issued.resize(collective->group + 1, 0);
      positions[i] = issued[collective->group]++;
    }
    position_.push_back(std::move(positions));
  }
  // A group's first member speaks for all: validate() has seen that they issue the same.
  first_.resize(schedule.groups.size());
  for (std::size_t g = 0; g < schedule.groups.size(); ++g) {
    first_[g] = static_cast<std::uint32_t>(planned_.size());
    if (schedule.groups[g].members.empty()) continue;
    const RankSpec& rank = schedule.ranks[schedule.groups[g].members.front().index()];
    for (const Op& op : schedule.programs[rank.program.index()].ops) {
      const auto* collective = std::get_if<Collective>(&op.work);
      if (!collective || rank.groups[collective->group] != GroupId(g)) continue;
      planned_.push_back(plans.planned(*collective, GroupId(g)));
      group_.push_back(GroupId(g));
    }
  }
}

}  // namespace rehearse::inline engine
