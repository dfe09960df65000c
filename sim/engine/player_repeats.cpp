// Repeated micro-batches: what is steady is cut out, and lanes go on behind it.
#include <algorithm>

#include "base/error.hpp"
#include "engine/player.hpp"

namespace rehearse::inline engine {

/// Cuts repeats out when they are steady.
void Player::watch_repeats(RankOp what, std::uint32_t iteration) {
  if (shared_.repeats.end(what, iteration, shared_.network.now())) cut_repeats(iteration);
}

void Player::cut_repeats(std::uint32_t iteration) {
  std::vector<Repeats::Next> next;
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
    for (std::size_t lane = 0; lane < ranks_[r].lanes.size(); ++lane) {
      const LaneState& state = ranks_[r].lanes[lane];
      const auto& ops = ranks_[r].index->lane_ops[lane];
      if (state.iteration < iteration || !shared_.repeats.takes_part(r, ops)) continue;
      if (state.iteration > iteration) return shared_.repeats.give_up(iteration);
      next.push_back({r, ops[state.position]});
    }
  }
  const Cut* cut = shared_.repeats.cut(iteration, next);
  if (!cut) return shared_.repeats.give_up(iteration);
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) leave_out(r, *cut, iteration);
}

/// Counts the iterations that are cut out as done.
void Player::leave_out(std::uint32_t rank, const Cut& cut, std::uint32_t iteration) {
  RankState& state = ranks_[rank];
  const std::size_t program = schedule_.ranks[rank].program.index();
  for (std::uint32_t op = cut.begin[program]; op < cut.end[program]; ++op) ++state.done[op];
  check(iteration < state.left.size(), "repeats of an iteration that has not begun");
  state.left[iteration] -= cut.end[program] - cut.begin[program];
}

/// A rank that would have fallen behind others during the cut has its lanes wait behind it. Each
/// lane begins a repeat's distance, and what the rank is behind, after it began the last one.
void Player::near_cut(RankOp what, LaneState& state) const {
  const Repeats& repeats = shared_.repeats;
  if (state.kept_in == state.iteration || !repeats.stands_for_more(what, state.iteration)) return;
  const Cut& cut = *repeats.cut_of(state.iteration);
  state.kept_in = state.iteration;
  state.resumes = shared_.network.now() + cut.gap[what.rank] + repeats.behind(what.rank, cut);
}

/// A lane that comes to what is cut out goes on behind it.
void Player::pass_cut(std::uint32_t rank, std::uint32_t lane) {
  LaneState& state = ranks_[rank].lanes[lane];
  const Cut* cut = shared_.repeats.cut_of(state.iteration);
  if (!cut) return;
  const auto& ops = ranks_[rank].index->lane_ops[lane];
  const std::size_t program = schedule_.ranks[rank].program.index();
  const std::uint32_t op = ops[state.position];
  if (op < cut->begin[program] || op >= cut->end[program]) return;
  state.position =
      static_cast<std::uint32_t>(std::ranges::lower_bound(ops, cut->end[program]) - ops.begin());
  check(state.position < ops.size(), "no repeat behind a cut");
  if (shared_.repeats.behind(rank, *cut) <= 0) return;
  state.held = true;
  shared_.network.call_at(state.resumes, {kResumed, rank, lane});
}

void Player::record_end(RankOp what, std::uint32_t iteration) {
  Repeats& repeats = shared_.repeats;
  const double now = shared_.network.now();
  if (!repeats.any()) return shared_.recorder.end(what, iteration, now);
  shared_.recorder.end(what, iteration, now, repeats.shift(what, iteration));
  if (repeats.stands_for_more(what, iteration))
    shared_.recorder.repeat(what, {.times = repeats.cut_of(iteration)->times,
                                   .period = repeats.period(what.rank),
                                   .gap = repeats.cut_of(iteration)->gap[what.rank]});
}

}  // namespace rehearse::inline engine
