#include "report/steady_state.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

#include "report/anatomy.hpp"
#include "report/update_log.hpp"

namespace rehearse::inline report {
namespace {

constexpr std::size_t kBatches = 32, kFewestBatches = 8;
constexpr double kFewestIterations = 8;
constexpr double kRoundOff = 1e-9;  // like iterations differ by that and no more
constexpr double kStart = 0.25;     // of the time so far: the run may still be settling

/// By worker and iteration; 0 where there is no update.
using StalenessTable = std::vector<std::vector<std::uint32_t>>;

StalenessTable table_of(const std::vector<Update>& updates, std::size_t ranks) {
  StalenessTable table(ranks);
  for (const Update& update : updates) {
    auto& own = table[update.worker.index()];
    if (own.size() <= update.iteration) own.resize(update.iteration + 1, 0);
    own[update.iteration] = update.staleness;
  }
  return table;
}

/// Whether iterations of the program await the event for good, and signal it.
bool shares(const Program& program, EventId event) {
  bool awaits = false, signals = false;
  for (const Op& op : program.ops) {
    for (const Await& await : op.awaits) awaits |= await.event == event && !await.until;
    signals |= std::ranges::find(op.signals, event) != op.signals.end();
  }
  return awaits && signals;
}

/// Whether an event that all workers await and signal keeps them at one pace in the long run.
bool holds_together(const Schedule& schedule, const std::vector<RankId>& workers) {
  std::vector<std::size_t> programs;
  for (const RankId rank : workers)
    programs.push_back(schedule.ranks[rank.index()].program.index());
  std::ranges::sort(programs);
  programs.erase(std::unique(programs.begin(), programs.end()), programs.end());
  for (std::size_t event = 0; event < schedule.events.size(); ++event)
    if (std::ranges::all_of(programs, [&](std::size_t program) {
          return shares(schedule.programs[program], EventId(event));
        }))
      return true;
  return false;
}

/// What happens in a batch: iterations, in fractions, and the sum of their staleness.
struct Batch {
  double iterations = 0, staleness = 0;
};

class BatchMeans {
 public:
  BatchMeans(Seconds begin, Seconds end)
      : batches_(kBatches), begin_(begin), length_((end - begin) / static_cast<double>(kBatches)) {}

  /// An iteration of some staleness; returns the part of it in the stretch.
  double add(Seconds from, Seconds to, std::uint32_t staleness) {
    const Seconds low = std::max(from, begin_), high = std::min(to, end());
    if (low > high || from >= end()) return 0;
    double whole = 0;
    for (std::size_t batch = batch_at(low); batch <= batch_at(high); ++batch) {
      const Seconds start = begin_ + length_ * static_cast<double>(batch);
      const Seconds part = std::min(high, start + length_) - std::max(low, start);
      const double share = to > from ? std::max(0.0, part / (to - from)) : 1.0;
      batches_[batch].iterations += share;
      batches_[batch].staleness += share * staleness;
      whole += share;
    }
    return whole;
  }

  Seconds end() const { return begin_ + length_ * static_cast<double>(batches_.size()); }
  Batch total() const { return sum(0, batches_.size()); }

  double rate_error() const {
    return error([](const Batch& batch) { return batch.iterations; });
  }
  double staleness_error() const {
    const Batch all = total();
    const double mean = all.staleness / all.iterations;
    return error([mean](const Batch& batch) { return batch.staleness - mean * batch.iterations; });
  }

 private:
  std::size_t batch_at(Seconds time) const {
    const double at = std::floor((time - begin_) / length_);
    return static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(kBatches - 1)));
  }
  Batch sum(std::size_t from, std::size_t count) const {
    Batch all;
    for (std::size_t i = from; i < from + count; ++i) {
      all.iterations += batches_[i].iterations;
      all.staleness += batches_[i].staleness;
    }
    return all;
  }

  /// Of the mean of `figure` over batches, over their mean iterations.
  template <class Figure>
  double error(const Figure& figure) const {
    double worst = 0;
    for (std::size_t together = 1; kBatches / together >= kFewestBatches; together *= 2)
      worst = std::max(worst, error(figure, together));
    const double halves =
        std::abs(figure(sum(0, kBatches / 2)) - figure(sum(kBatches / 2, kBatches / 2)));
    worst = std::max(worst, halves / total().iterations);
    return worst > kRoundOff ? worst : 0;
  }
  template <class Figure>
  double error(const Figure& figure, std::size_t together) const {
    const std::size_t n = kBatches / together;
    const double mean = figure(total()) / static_cast<double>(n);
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i)
      squares += std::pow(figure(sum(i * together, together)) - mean, 2);
    const auto degrees = static_cast<double>(n - 1);
    const boost::math::students_t distribution(degrees);
    const double deviation = std::sqrt(squares / degrees / static_cast<double>(n));
    return boost::math::quantile(distribution, 0.95) * deviation /
           (total().iterations / static_cast<double>(n));
  }

  std::vector<Batch> batches_;
  Seconds begin_, length_;
};

Seconds ended_at(const std::vector<Seconds>& ends, std::size_t iterations) {
  return iterations == 0 ? Seconds(0) : ends[std::min(iterations, ends.size()) - 1];
}

/// When the first of the workers has nothing more.
Seconds first_end(const Trace& trace, const std::vector<RankId>& workers) {
  Seconds end(std::numeric_limits<double>::infinity());
  for (const RankId rank : workers) end = std::min(end, trace.iteration_end[rank.index()].back());
  return end;
}

Seconds start_of(const Trace& trace, const std::vector<RankId>& workers, std::uint32_t warmup,
                 Seconds end) {
  Seconds warm;
  for (const RankId rank : workers)
    warm = std::max(warm, ended_at(trace.iteration_end[rank.index()], warmup));
  const Seconds start = end * kStart;
  return warm < end ? std::max(start, warm) : start;
}

/// What the slowest worker's pace would cost the mean one's.
double imbalance(const std::vector<double>& rates) {
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return 1 - std::ranges::min(rates) * static_cast<double>(rates.size()) / sum;
}

}  // namespace

SteadyState steady_state(const Schedule& schedule, const Trace& trace,
                         const std::vector<RankId>& workers, const std::vector<Update>& updates,
                         std::uint32_t warmup) {
  SteadyState state;
  state.end = first_end(trace, workers);
  state.begin = start_of(trace, workers, std::max(warmup, schedule.warmup_rounds), state.end);
  const StalenessTable table = table_of(updates, trace.iteration_end.size());
  BatchMeans estimate(state.begin, state.end);
  std::map<std::uint32_t, double> parts;
  std::vector<double> iterations;
  for (const RankId rank : workers) {
    const std::vector<Seconds>& ends = trace.iteration_end[rank.index()];
    double& own = iterations.emplace_back(0);
    const auto first = std::ranges::upper_bound(ends, state.begin);
    for (auto k = static_cast<std::size_t>(first - ends.begin()); k < ends.size(); ++k) {
      if (ended_at(ends, k) >= state.end) break;
      const auto& stale = table[rank.index()];
      const std::uint32_t staleness = k < stale.size() ? stale[k] : 0;
      const double part = estimate.add(ended_at(ends, k), ends[k], staleness);
      own += part;
      parts[staleness] += part;
    }
    state.rates.push_back(own / (state.end - state.begin).value());
  }
  for (const auto& [staleness, count] : parts)
    if (const auto whole = static_cast<std::uint64_t>(std::llround(count)))
      state.histogram[staleness] = whole;
  state.staleness = estimate.total().staleness / estimate.total().iterations;
  state.slowest = std::ranges::min(iterations);
  state.rate_error = estimate.rate_error();
  if (holds_together(schedule, workers))
    state.rate_error = std::max(state.rate_error, imbalance(state.rates));
  state.staleness_error = estimate.staleness_error();
  state.reached = state.rate_error <= kSteadyPrecision &&
                  state.staleness_error <= kSteadyPrecision * std::max(1.0, state.staleness) &&
                  state.slowest >= kFewestIterations;
  return state;
}

bool is_steady(const Schedule& schedule, const Trace& trace, std::uint32_t warmup) {
  return steady_state(schedule, trace, computing_ranks(schedule), update_log(schedule, trace),
                      warmup)
      .reached;
}

}  // namespace rehearse::inline report
