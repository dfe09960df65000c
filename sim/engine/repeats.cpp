#include "engine/repeats.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.hpp"

namespace rehearse::inline engine {
namespace {

/// Distances between so many repeats are compared, and differ by less than this share.
constexpr std::size_t kDistances = 3;
constexpr double kEven = 1e-7;
/// Fewer repeats than the first are played; of the others two at least are left out.
constexpr std::uint32_t kLeastTimes = 8, kLeastCut = 2;

/// Replicas that take steps of their own, by less than this apart, all take the slowest one's: they
/// meet at the end of the step.
constexpr double kNearlyEven = 1.05;

bool even(double a, double b) { return std::abs(a - b) <= kEven * std::max(a, b); }

}  // namespace

Repeats::Repeats(const Schedule& schedule, const CollectiveTable& collectives, bool wanted)
    : schedule_(schedule), collectives_(collectives) {
  // Operations whose times are drawn one by one are never steady.
  if (!wanted || schedule.jitter.distribution == Jitter::Distribution::measured) return;
  stretches_ = stretches_of(schedule, kLeastTimes);
  if (!any()) return;
  find_markers();
  join_ranks();
}

/// The last operation of each lane in a repeat.
void Repeats::find_markers() {
  for (std::size_t p = 0; p < stretches_.size(); ++p) {
    const Stretch& stretch = stretches_[p];
    const Program& program = schedule_.programs[p];
    std::vector<std::uint32_t> last(program.lanes.size(), ~0U);
    std::vector<std::uint32_t> calls;
    for (std::uint32_t place = 0; place < stretch.period; ++place) {
      const Op& op = program.ops[stretch.begin + place];
      last[op.lane->index()] = place;
      const auto* collective = std::get_if<Collective>(&op.work);
      if (!collective) continue;
      if (collective->group >= calls.size()) calls.resize(collective->group + 1, 0);
      ++calls[collective->group];
    }
    std::vector<std::int32_t> marks(stretch.period, -1);
    std::int32_t count = 0;
    for (const std::uint32_t place : last)
      if (place != ~0U) marks[place] = count++;
    marks_.push_back(std::move(marks));
    marker_count_.push_back(static_cast<std::size_t>(count));
    calls_.push_back(std::move(calls));
  }
  for (const RankSpec& rank : schedule_.ranks) markers_ += marker_count_[rank.program.index()];
}

/// Those that communicate in a repeat.
void Repeats::join_ranks() {
  together_.resize(schedule_.ranks.size());
  std::iota(together_.begin(), together_.end(), 0);
  const auto first = [&](std::size_t rank) {
    while (together_[rank] != rank) rank = together_[rank] = together_[together_[rank]];
    return rank;
  };
  std::vector<std::size_t> member(schedule_.groups.size(), together_.size());
  for (std::size_t r = 0; r < together_.size(); ++r) {
    const RankSpec& rank = schedule_.ranks[r];
    const auto& calls = calls_[rank.program.index()];
    for (std::size_t slot = 0; slot < calls.size(); ++slot) {
      if (calls[slot] == 0) continue;
      std::size_t& other = member[rank.groups[slot].index()];
      if (other == together_.size()) other = r;
      together_[first(r)] = first(other);
    }
  }
  for (std::size_t r = 0; r < together_.size(); ++r) together_[r] = first(r);
  apart_ = std::ranges::all_of(calls_, [](const auto& calls) {
    return std::ranges::all_of(calls, [](std::uint32_t count) { return count == 0; });
  });
}

Repeats::Round& Repeats::round_of(std::uint32_t iteration) {
  const auto [at, fresh] = rounds_.try_emplace(iteration);
  if (!fresh) return at->second;
  Round& round = at->second;
  if (at != rounds_.begin()) {
    const Round& earlier = std::prev(at)->second;
    round.before = earlier.before + (earlier.cut ? earlier.cut->shift : 0);
  }
  for (const RankSpec& rank : schedule_.ranks)
    round.ends.emplace_back(marker_count_[rank.program.index()]);
  return round;
}

bool Repeats::end(RankOp what, std::uint32_t iteration, double now) {
  const Stretch& stretch = stretch_of(what.rank);
  if (!stretch.has(what.op)) return false;
  const std::uint32_t place = (what.op - stretch.begin) % stretch.period;
  const std::int32_t mark = marks_[schedule_.ranks[what.rank].program.index()][place];
  if (mark < 0) return false;
  Round& round = round_of(iteration);
  if (round.cut || round.closed) return false;
  auto& ends = round.ends[what.rank][static_cast<std::size_t>(mark)];
  const std::size_t repeat = ends.size();
  ends.push_back(now);
  if (repeat >= round.markers.size()) round.markers.resize(repeat + 1, 0);
  if (++round.markers[repeat] < markers_) return false;
  round.last = repeat;
  return steady(round, repeat);
}

/// The distance between a rank's repeats; nothing: they are not even.
std::optional<double> Repeats::gap_of(const Round& round, std::uint32_t rank,
                                      std::size_t last) const {
  const auto& markers = round.ends[rank];
  const double gap = markers.front()[last] - markers.front()[last - 1];
  for (const std::vector<double>& ends : markers)
    for (std::size_t k = last; k > last - kDistances; --k)
      if (!even(ends[k] - ends[k - 1], gap)) return std::nullopt;
  return gap;
}

bool Repeats::steady(const Round& round, std::size_t last) const {
  if (last < kDistances) return false;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  std::vector<double> gaps(schedule_.ranks.size(), 0);
  for (std::uint32_t r = 0; r < gaps.size(); ++r) {
    const auto gap = gap_of(round, r, last);
    if (!gap) return false;
    double& known = gaps[together_[r]];
    if (known == 0) known = *gap;
    if (!even(known, *gap)) return false;
    least = std::min(least, *gap);
    most = std::max(most, *gap);
  }
  return apart_ || most <= kNearlyEven * least;
}

bool Repeats::takes_part(std::uint32_t rank, const std::vector<std::uint32_t>& lane_ops) const {
  const Stretch& stretch = stretch_of(rank);
  const auto first = std::ranges::lower_bound(lane_ops, stretch.begin);
  return first != lane_ops.end() && stretch.has(*first);
}

const Cut* Repeats::cut(std::uint32_t iteration, const std::vector<Next>& next) {
  Round& round = round_of(iteration);
  // By program, the repeat that is cut out first. The one before it is begun by nobody, so that it
  // can stand for those that are left out.
  std::vector<std::uint32_t> first(stretches_.size(), 0);
  for (const Next& one : next) {
    const std::size_t program = schedule_.ranks[one.rank].program.index();
    const Stretch& stretch = stretches_[program];
    if (one.op >= stretch.end()) return nullptr;
    const std::uint32_t begun = one.op < stretch.begin ? 0 : stretch.repeat_of(one.op);
    first[program] = std::max(first[program], begun + 2);
  }
  Cut cut{.times = ~0U, .begin = {}, .end = {}, .gap = {}};
  for (std::size_t p = 0; p < stretches_.size(); ++p) {
    if (first[p] + 1 >= stretches_[p].times) return nullptr;
    cut.times = std::min(cut.times, stretches_[p].times - 1 - first[p]);
  }
  if (cut.times < kLeastCut) return nullptr;
  for (std::size_t p = 0; p < stretches_.size(); ++p) {
    cut.begin.push_back(stretches_[p].begin + first[p] * stretches_[p].period);
    cut.end.push_back(cut.begin.back() + cut.times * stretches_[p].period);
  }
  for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r)
    cut.gap.push_back(gap_of(round, r, round.last).value());
  cut.shift = cut.times * (apart_ ? std::ranges::min(cut.gap) : std::ranges::max(cut.gap));
  round.cut = std::move(cut);
  renumber(iteration, *round.cut);
  return &*round.cut;
}

const Cut* Repeats::cut_of(std::uint32_t iteration) const {
  const auto found = rounds_.find(iteration);
  return found != rounds_.end() && found->second.cut ? &*found->second.cut : nullptr;
}

std::uint32_t Repeats::played_for(std::uint32_t rank, std::uint32_t after, std::uint32_t op,
                                  std::uint32_t iteration) const {
  const Cut* cut = cut_of(iteration);
  if (!cut) return op;
  const std::size_t program = schedule_.ranks[rank].program.index();
  const std::uint32_t begin = cut->begin[program], end = cut->end[program];
  if (after < end || op < stretches_[program].begin || op >= end) return op;
  // As far behind as without a cut; or, of one that waits for all repeats, the last of its kind.
  const std::uint32_t out = end - begin, period = stretches_[program].period;
  if (op >= stretches_[program].begin + out) return op - out;
  return op < begin ? op : begin - period + (op - begin) % period;
}

double Repeats::shift(std::uint32_t iteration) const {
  const auto found = rounds_.find(iteration);
  if (found != rounds_.end())
    return found->second.before + (found->second.cut ? found->second.cut->shift : 0);
  if (rounds_.empty() || rounds_.begin()->first > iteration) return 0;
  const Round& last = std::prev(rounds_.upper_bound(iteration))->second;
  return last.before + (last.cut ? last.cut->shift : 0);
}

double Repeats::shift(RankOp what, std::uint32_t iteration) const {
  const Cut* cut = cut_of(iteration);
  const double all = shift(iteration);
  const bool before = cut && what.op < cut->end[schedule_.ranks[what.rank].program.index()];
  return before ? all - cut->shift : all;
}

bool Repeats::stands_for_more(RankOp what, std::uint32_t iteration) const {
  const Cut* cut = cut_of(iteration);
  if (!cut) return false;
  const std::uint32_t begin = cut->begin[schedule_.ranks[what.rank].program.index()];
  return what.op < begin && what.op + period(what.rank) >= begin;
}

double Repeats::behind(std::uint32_t rank, const Cut& cut) const {
  return apart_ ? std::max(0.0, cut.times * cut.gap[rank] - cut.shift) : 0;
}

std::uint32_t Repeats::stands_for(RankOp what, std::uint32_t iteration) const {
  return stands_for_more(what, iteration) ? 1 + cut_of(iteration)->times : 1;
}

/// Behind a cut a collective has the number of the one that would be there. Members cut at unlike
/// places; from the first of these on, numbers stand for what comes so much later.
void Repeats::renumber(std::uint32_t iteration, const Cut& cut) {
  const auto size = static_cast<std::uint32_t>(collectives_.size());
  const std::uint32_t parity = iteration % 2 * size;
  if (plans_.empty()) {
    plans_.resize(2 * std::size_t{size});
    for (std::uint32_t i = 0; i < 2 * size; ++i) plans_[i] = i % size;
  }
  numbered_[iteration % 2] = iteration;
  std::vector<std::uint32_t> first(schedule_.groups.size(), size), out(schedule_.groups.size(), 0);
  for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) {
    const RankSpec& rank = schedule_.ranks[r];
    const std::size_t program = rank.program.index();
    for (std::uint32_t k = 0; k < stretches_[program].period; ++k) {
      const OpId op(cut.begin[program] + k);
      const auto* one = std::get_if<Collective>(&schedule_.programs[program].ops[op.index()].work);
      if (!one) continue;
      const std::size_t group = rank.groups[one->group].index();
      first[group] = std::min(first[group], collectives_.id(RankId(r), *one, op));
      out[group] = cut.times * calls_[program][one->group];
    }
  }
  for (std::size_t group = 0; group < first.size(); ++group)
    for (std::uint32_t id = first[group];
         id + out[group] < size && collectives_.group(id + out[group]).index() == group; ++id)
      plans_[parity + id] = id + out[group];
}

std::uint32_t Repeats::id(RankOp what, const Collective& collective, std::uint32_t iteration) {
  const auto size = static_cast<std::uint32_t>(collectives_.size());
  const std::uint32_t parity = iteration % 2 * size;
  std::uint32_t id = collectives_.id(RankId(what.rank), collective, OpId(what.op));
  if (!any()) return id + parity;
  if (!plans_.empty() && numbered_[iteration % 2] != iteration) {
    for (std::uint32_t i = 0; i < size; ++i) plans_[parity + i] = i;
    numbered_[iteration % 2] = iteration;
  }
  const Cut* cut = cut_of(iteration);
  const std::size_t program = schedule_.ranks[what.rank].program.index();
  const auto& calls = calls_[program];
  if (cut && what.op >= cut->end[program] && collective.group < calls.size())
    id -= cut->times * calls[collective.group];
  return id + parity;
}

}  // namespace rehearse::inline engine
