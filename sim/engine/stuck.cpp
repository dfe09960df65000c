// What a simulation that cannot finish is waiting for.
#include <algorithm>
#include <numeric>

#include "engine/player.hpp"

namespace rehearse::inline engine {

std::string Player::wait_of(RankOp what, std::uint32_t iteration, bool begun) const {
  const RankState& rank = ranks_[what.rank];
  const Program& program = *rank.index->program;
  const Op& op = op_of(what);
  std::string text = "  rank " + std::to_string(what.rank);
  if (op.lane) text += ", lane " + program.lanes[op.lane->index()].name;
  text += ", iteration " + std::to_string(iteration) + ": " + op.label();
  for (const After& after : op.after)
    if (rank.done[after.op.index()] + after.distance <= iteration && iteration >= after.distance)
      text += "; waits for " + program.ops[after.op.index()].label();
  for (const Await& await : op.awaits) {
    const Event& event = schedule_.events[await.event.index()];
    const auto instance = await.instance(iteration);
    if (instance && events_[await.event.index()].signals_of(*instance) < event.needs)
      text += "; waits for event " + event.name;
  }
  if (begun && std::holds_alternative<Collective>(op.work))
    text += "; waits for the other members of its group";
  return text + "\n";
}

// Heads of lanes and operations without a lane; what merely stands behind another is left out.
std::string Player::waiting_list() const {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> waits;
  for (std::uint32_t r = 0; r < ranks_.size() && waits.size() < kShown; ++r) {
    const RankState& rank = ranks_[r];
    for (std::size_t lane = 0; lane < rank.lanes.size(); ++lane) {
      const LaneState& state = rank.lanes[lane];
      const auto& ops = rank.index->lane_ops[lane];
      if (state.running > 0) {  // what began last
        const bool first = state.position == 0;
        const std::uint32_t op = ops[first ? ops.size() - 1 : state.position - 1];
        waits.push_back(wait_of({r, op}, first ? state.iteration - 1 : state.iteration, true));
      } else if (!ops.empty() && iterations_.goes_on(r, state.iteration)) {
        waits.push_back(wait_of({r, ops[state.position]}, state.iteration, false));
      }
    }
    for (const std::uint32_t op : rank.index->free_ops)
      if (iterations_.goes_on(r, rank.done[op]))
        waits.push_back(wait_of({r, op}, rank.done[op], rank.free_ops[op].issued > rank.done[op]));
  }
  waits.resize(std::min(waits.size(), kShown));
  return std::accumulate(waits.begin(), waits.end(), std::string());
}

}  // namespace rehearse::inline engine
