#include "schedule/rounds.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace rehearse::inline schedule {
namespace {

/// Of an iteration's computation: what a rank may have computed beyond what it waits for.
constexpr double kMostBeyond = 0.05;
/// As many iterations as a wait may reach back, and one.
constexpr std::size_t kUnrolled = 2;

enum class Reach { rank, node, job };

/// Numbers of computations with jitter, counted over the iterations, that are surely over: on the
/// rank itself, on all ranks of its node, on all ranks of the job. -1: none.
struct Over {
  long rank = -1, node = -1, job = -1;

  void raise(const Over& other) {
    rank = std::max(rank, other.rank);
    node = std::max(node, other.node);
    job = std::max(job, other.job);
  }
  auto operator<=>(const Over&) const = default;
};

class Cutter {
 public:
  Cutter(const Schedule& schedule, RankId rank)
      : schedule_(schedule), rank_(rank), program_(schedule.program_of(rank)) {
    number_.assign(program_.ops.size(), -1);
    for (std::size_t i = 0; i < program_.ops.size(); ++i) {
      const auto* compute = std::get_if<Compute>(&program_.ops[i].work);
      if (!compute || !compute->jittered) continue;
      number_[i] = static_cast<long>(computed_.size());
      computed_.push_back(i);
    }
  }

  Rounds cut() {
    follow_waits();
    Rounds result;
    result.of_op.assign(program_.ops.size(), 0);
    if (computed_.empty()) return result;
    // Without any wait for all: each iteration by itself.
    std::set<std::size_t> ends = boundaries(&Over::job);
    if (ends.empty()) ends = {0};
    const std::set<std::size_t> node_ends = boundaries(&Over::node);
    std::size_t begin = *ends.rbegin();
    for (const std::size_t end : ends) {
      result.rounds.push_back(round(begin, end, node_ends, result.rounds.empty()));
      begin = end;
    }
    merge(ends, result.rounds);
    for (std::size_t n = 0; n < computed_.size(); ++n)
      result.of_op[computed_[n]] =
          static_cast<std::uint32_t>(std::distance(ends.begin(), ends.upper_bound(n)));
    return result;
  }

 private:
  const Compute& compute(std::size_t number) const {
    return std::get<Compute>(program_.ops[computed_[number]].work);
  }

  Reach reach(const Collective& collective) const {
    const RankSpec& rank = schedule_.ranks[rank_.index()];
    const Group& group = schedule_.groups[rank.groups[collective.group].index()];
    if (group.ranks < 2) return Reach::rank;
    return group.nodes < 2 ? Reach::node : Reach::job;
  }

  /// What is over before an operation of an iteration begins.
  Over before(std::size_t op, std::size_t iteration, std::size_t lane_before) const {
    Over over;
    const auto add = [&](std::size_t other, std::size_t distance) {
      if (distance <= iteration) over.raise(over_[iteration - distance][other]);
    };
    for (const After& after : program_.ops[op].after) add(after.op.index(), after.distance);
    add(lane_before, lane_before < op ? 0 : 1);
    return over;
  }

  Over after(std::size_t op, std::size_t iteration, Over over) const {
    if (number_[op] >= 0)
      over.rank =
          std::max(over.rank, number_[op] + static_cast<long>(iteration * computed_.size()));
    if (const auto* collective = std::get_if<Collective>(&program_.ops[op].work)) {
      const Reach far = reach(*collective);
      if (far != Reach::rank) over.node = std::max(over.node, over.rank);
      if (far == Reach::job) over.job = std::max(over.job, over.rank);
    }
    return over;
  }

  /// Follows lanes and edges until nothing more is found to be over.
  void follow_waits() {
    std::vector<std::size_t> lane_before(program_.ops.size());
    std::vector<std::size_t> last(program_.lanes.size());
    const auto pass = [&] {
      for (std::size_t i = 0; i < program_.ops.size(); ++i) {
        lane_before[i] = i;
        if (const auto lane = program_.ops[i].lane)
          lane_before[i] = std::exchange(last[lane->index()], i);
      }
    };
    pass();
    pass();  // the first of a lane comes after its last
    over_.assign(kUnrolled, std::vector<Over>(program_.ops.size()));
    begin_.assign(program_.ops.size(), {});
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t k = 0; k < kUnrolled; ++k) {
        for (std::size_t i = 0; i < program_.ops.size(); ++i) {
          const Over begins = before(i, k, lane_before[i]);
          const Over ends = after(i, k, begins);
          if (k + 1 == kUnrolled) begin_[i] = begins;
          changed = changed || ends != over_[k][i];
          over_[k][i] = ends;
        }
      }
    }
  }

  /// Numbers of computations within an iteration that begin after a wait of that reach.
  std::set<std::size_t> boundaries(long Over::*reach) const {
    const auto count = static_cast<long>(computed_.size());
    Seconds all;
    for (std::size_t n = 0; n < computed_.size(); ++n) all += compute(n).duration;
    std::set<std::size_t> found;
    for (long n = 0; n < count; ++n) {
      const long over = begin_[computed_[static_cast<std::size_t>(n)]].*reach;
      if (over < 0) continue;
      Seconds beyond;
      for (long other = n + count - 1; other > over && beyond <= kMostBeyond * all; --other)
        beyond += compute(static_cast<std::size_t>(other % count)).duration;
      if (beyond <= kMostBeyond * all) found.insert(static_cast<std::size_t>((over + 1) % count));
    }
    return found;
  }

  /// From one boundary to the next; `wraps`: it begins in the iteration before.
  Round round(std::size_t begin, std::size_t end, const std::set<std::size_t>& node_ends,
              bool wraps) const {
    Round result{.parts = {{}}};
    const auto add = [&](std::size_t from, std::size_t to, std::uint32_t ago) {
      for (std::size_t n = from; n < to; ++n) {
        if (node_ends.contains(n)) result.parts.emplace_back();
        add_share(result.parts.back(), compute(n), ago);
      }
    };
    if (wraps) {
      add(begin, computed_.size(), 1);
      begin = 0;
    }
    add(begin, end, 0);
    merge_parts(result.parts);
    return result;
  }

  static void add_share(Round::Part& part, const Compute& compute, std::uint32_t ago) {
    if (part.empty() || part.back().iterations_ago != ago || part.back().step != compute.step)
      part.push_back({ago, compute.step, Seconds(0)});
    part.back().duration += compute.duration;
  }

  /// One factor on both: whoever is the slowest in one is so in the other.
  static bool of_one_step(const Round::Part& one, const Round::Part& other) {
    return one.size() == 1 && other.size() == 1 && one[0].step == other[0].step &&
           one[0].iterations_ago == other[0].iterations_ago;
  }

  static void merge_parts(std::vector<Round::Part>& parts) {
    std::vector<Round::Part> merged;
    for (Round::Part& part : parts) {
      if (part.empty()) continue;
      if (!merged.empty() && of_one_step(merged.back(), part))
        merged.back()[0].duration += part[0].duration;
      else
        merged.push_back(std::move(part));
    }
    parts = std::move(merged);
  }

  /// Leaves out boundaries between rounds of one and the same step.
  static void merge(std::set<std::size_t>& ends, std::vector<Round>& rounds) {
    auto end = ends.begin();
    for (std::size_t r = 0; r + 1 < rounds.size();) {
      auto& parts = rounds[r].parts;
      auto& next = rounds[r + 1].parts;
      if (parts.size() == 1 && next.size() == 1 && of_one_step(parts[0], next[0])) {
        parts[0][0].duration += next[0][0].duration;
        rounds.erase(rounds.begin() + static_cast<std::ptrdiff_t>(r) + 1);
        end = ends.erase(end);
      } else {
        ++r, ++end;
      }
    }
  }

  const Schedule& schedule_;
  RankId rank_;
  const Program& program_;
  std::vector<std::size_t> computed_;    // operations with jitter, in order
  std::vector<long> number_;             // by operation: its place among them; -1: none
  std::vector<std::vector<Over>> over_;  // by iteration and operation: when it ends
  std::vector<Over> begin_;              // when it begins, in the last iteration
};

}  // namespace

Rounds rounds_of(const Schedule& schedule, RankId rank) { return Cutter(schedule, rank).cut(); }

}  // namespace rehearse::inline schedule
