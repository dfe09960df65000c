#include "schedule/factors.hpp"

#include <algorithm>

#include "schedule/jitter.hpp"

namespace rehearse::inline schedule {
namespace {

/// Iterations whose draws are kept: ranks are at most one apart.
constexpr std::uint32_t kIterationsKept = 3;

}  // namespace

ComputeFactors::ComputeFactors(const Schedule& schedule)
    : schedule_(schedule), last_(schedule.ranks.size()) {
  if (!schedule.crowd || schedule.jitter.distribution == Jitter::Distribution::none) return;
  if (schedule.crowd->ranks.empty()) rounds_ = rounds_of(schedule, RankId(0));
  kept_nodes_ = schedule.ranks.size() / schedule.crowd->ranks_per_node;
}

double ComputeFactors::of(RankId rank, OpId op, std::uint32_t iteration) const {
  const Program& program = schedule_.program_of(rank);
  const auto& compute = std::get<Compute>(program.ops[op.index()].work);
  const std::uint32_t step = iteration * program.steps + compute.step;
  if (rounds_) return in_crowd(rank, op, iteration, step);
  if (kept_nodes_ > 0) return in_replicas(rank, iteration, step);
  Drawn& last = last_[rank.index()];
  if (last.step != step) last = {step, compute_factor(schedule_, rank, step)};
  return last.factor;
}

double ComputeFactors::in_replicas(RankId rank, std::uint32_t iteration, std::uint32_t step) const {
  const std::size_t each = schedule_.crowd->ranks_per_node;
  const std::size_t kept = rank.index() / each;
  const std::size_t place = iteration * kept_nodes_ + kept;
  if (place >= players_.size()) players_.resize(place + 1, 0);
  if (players_[place] == 0) {
    double longest = -1;
    for (std::size_t at = kept; at < schedule_.crowd->nodes.size(); at += kept_nodes_) {
      double slowest = 0;
      for (std::size_t i = 0; i < each; ++i) slowest = std::max(slowest, slowest_at(at, i, step));
      if (slowest <= longest) continue;
      longest = slowest;
      players_[place] = static_cast<std::uint32_t>(at) + 1;
    }
  }
  return slowest_at(players_[place] - 1, rank.index() % each, step);
}

/// Of the ranks at a position that the i-th kept one stands for.
double ComputeFactors::slowest_at(std::size_t position, std::size_t i, std::uint32_t step) const {
  const Crowd& crowd = *schedule_.crowd;
  const std::vector<double>& factors = draws(step);
  const std::size_t there = crowd.ranks.size() / crowd.nodes.size();
  double slowest = 0;
  for (std::size_t at = i; at < there; at += crowd.ranks_per_node) {
    const std::size_t which = position * there + at;
    const bool is_kept = position < kept_nodes_ && at == i;
    const double own = is_kept ? schedule_.ranks[position * crowd.ranks_per_node + i].slowdown
                               : crowd.slowdowns[which];
    slowest = std::max(slowest, own * factors[which]);
  }
  return slowest;
}

double ComputeFactors::in_crowd(RankId rank, OpId op, std::uint32_t iteration,
                                std::uint32_t step) const {
  const std::size_t per_node = schedule_.crowd->ranks_per_node;
  std::uint32_t round = rounds_->of_op[op.index()];
  if (round == rounds_->rounds.size()) ++iteration, round = 0;
  const std::size_t played =
      player(rank.index() / per_node, iteration, round) * per_node + rank.index() % per_node;
  return slowdown(played) * draws(step)[played];
}

/// The position that a kept node plays in a round.
std::size_t ComputeFactors::player(std::size_t kept, std::uint32_t iteration,
                                   std::uint32_t round) const {
  const std::size_t place = (iteration * rounds_->rounds.size() + round) * kept_nodes_ + kept;
  if (place >= players_.size()) players_.resize(place + 1, 0);
  if (players_[place] == 0)
    players_[place] =
        static_cast<std::uint32_t>(slowest(kept, iteration, rounds_->rounds[round])) + 1;
  return players_[place] - 1;
}

std::size_t ComputeFactors::slowest(std::size_t kept, std::uint32_t iteration,
                                    const Round& round) const {
  const std::uint32_t steps = schedule_.programs.front().steps;
  std::vector<std::vector<Term>> parts;
  for (const Round::Part& part : round.parts) {
    parts.emplace_back();
    for (const Round::Share& share : part) {
      const std::uint32_t at = iteration - share.iterations_ago;
      if (share.iterations_ago > iteration || at >= schedule_.iterations) continue;
      parts.back().push_back({share.duration.value(), draws(at * steps + share.step).data()});
    }
  }
  std::size_t best = kept;
  double longest = -1;
  for (std::size_t at = kept; at < schedule_.crowd->nodes.size(); at += kept_nodes_) {
    const double time = node_time(at, parts);
    if (time > longest) longest = time, best = at;
  }
  return best;
}

/// What a node computes in a round: its ranks end each part together.
double ComputeFactors::node_time(std::size_t position,
                                 const std::vector<std::vector<Term>>& parts) const {
  const std::size_t per_node = schedule_.crowd->ranks_per_node;
  double sum = 0;
  for (const std::vector<Term>& part : parts) {
    double longest = 0;
    for (std::size_t rank = position * per_node; rank < (position + 1) * per_node; ++rank) {
      double time = 0;
      for (const Term& term : part) time += term.duration * term.draws[rank];
      longest = std::max(longest, time * slowdown(rank));
    }
    sum += longest;
  }
  return sum;
}

/// Of a rank by its position.
double ComputeFactors::slowdown(std::size_t rank) const {
  const auto& kept = schedule_.ranks;
  return rank < kept.size() ? kept[rank].slowdown : schedule_.crowd->slowdowns[rank];
}

/// Of a training step, for all ranks by their positions.
const std::vector<double>& ComputeFactors::draws(std::uint32_t step) const {
  const auto found = draws_.find(step);
  if (found != draws_.end()) return found->second;
  const std::uint32_t kept = kIterationsKept * schedule_.programs.front().steps;
  while (!draws_.empty() && draws_.begin()->first + kept < step) draws_.erase(draws_.begin());
  std::vector<double>& all = draws_[step];
  for (const std::uint32_t rank : schedule_.crowd->ranks)
    all.push_back(step_draw(schedule_, rank, step));
  if (!all.empty()) return all;
  const std::size_t per_node = schedule_.crowd->ranks_per_node;
  for (const std::uint32_t node : schedule_.crowd->nodes)
    for (std::size_t gpu = 0; gpu < per_node; ++gpu)
      all.push_back(step_draw(schedule_, node * per_node + gpu, step));
  return all;
}

}  // namespace rehearse::inline schedule
