#include "engine/iterations.hpp"

#include <algorithm>

#include "schedule/jitter.hpp"

namespace rehearse::inline engine {

Iterations::Iterations(const Schedule& schedule, const EngineOptions& options, Recorder& recorder)
    : schedule_(schedule), options_(options), recorder_(recorder) {
  if (schedule.sampled_ranks > 0)
    for (std::uint32_t k = 0; k < schedule.iterations; ++k)
      present_.push_back(participants(schedule, k));
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    slowest_.resize(schedule.ranks[r].job + 1, 0);
    const bool works = !schedule.program_of(RankId(r)).ops.empty();
    if (works && !schedule.ranks[r].in_background()) left_ += schedule.iterations;
  }
}

// Background ranks never finish. A cap on how far a lane or a rank may run ahead keeps steps of no
// length from looping for ever.
bool Iterations::goes_on(std::uint32_t rank, std::uint32_t iteration) const {
  constexpr std::uint32_t kLanesAhead = 4, kRanksAhead = 1000;
  if (!in_background(rank)) {
    if (!is_open_ended() || closing_) return iteration < schedule_.iterations;
    return iteration < ended(rank) + kLanesAhead;
  }
  return iteration < ended(rank) + kLanesAhead &&
         iteration < slowest_[schedule_.ranks[rank].job] + kRanksAhead;
}

// What waited for this iteration's end may go on.
Iterations::Next Iterations::end_in_background(std::uint32_t rank) {
  const std::uint32_t job = schedule_.ranks[rank].job;
  std::uint32_t least = ended(rank);
  for (std::size_t r = 0; r < schedule_.ranks.size(); ++r)
    if (schedule_.ranks[r].job == job && !schedule_.program_of(RankId(r)).ops.empty())
      least = std::min(least, ended(r));
  if (least == slowest_[job]) return Next::rank;
  slowest_[job] = least;
  return Next::job;
}

Iterations::Next Iterations::end(std::uint32_t rank, std::uint32_t iteration, double now) {
  Trace& trace = recorder_.trace();
  std::vector<Seconds>& ends = trace.iteration_end[rank];
  if (in_background(rank)) {
    ends.emplace_back(now);  // iterations end in order
    return end_in_background(rank);
  }
  // Not the clock's last date: a computation that ended early leaves a timer that means nothing.
  trace.end = Seconds(now);
  if (is_open_ended())
    ends.push_back(trace.end);  // iterations end in order
  else
    ends[iteration] = trace.end;
  if (iteration < schedule_.iterations) --left_;
  if (options_.progress && rank == 0)
    options_.progress(std::min(1.0, (iteration + 1.0) / schedule_.iterations));
  if (!is_open_ended()) return Next::nobody;
  ++iterations_;
  finished_ = closing_ ? left_ == 0 : suffices();
  return finished_ ? Next::nobody : Next::rank;
}

// Whether an open-ended run may stop. Asking costs as much as all that was played.
bool Iterations::suffices() {
  constexpr double kMoreEachTime = 1.4;
  Trace& trace = recorder_.trace();
  const bool at_limit = operations_ >= options_.most_operations;
  if (left_ > 0) {
    closing_ = trace.cut_short = at_limit;
    return false;
  }
  if (iterations_ < asks_at_ && !at_limit) return false;
  asks_at_ = static_cast<std::uint64_t>(kMoreEachTime * static_cast<double>(iterations_)) + 1;
  const bool enough = options_.enough(trace);
  trace.cut_short = at_limit && !enough;
  return enough || at_limit;
}

}  // namespace rehearse::inline engine
