#include "engine/recorder.hpp"

#include <algorithm>

namespace rehearse::inline engine {
namespace {

/// By rank and then by start. They come in order of their ends, so that each rank's are nearly
/// sorted.
std::vector<Span> in_order(const std::vector<Span>& spans, std::size_t ranks) {
  std::vector<std::size_t> place(ranks + 1, 0);
  for (const Span& span : spans) ++place[span.rank.index() + 1];
  for (std::size_t rank = 0; rank < ranks; ++rank) place[rank + 1] += place[rank];
  const std::vector<std::size_t> first = place;
  std::vector<Span> sorted(spans.size());
  for (const Span& span : spans) sorted[place[span.rank.index()]++] = span;
  const auto at = [&](std::size_t i) { return sorted.begin() + static_cast<std::ptrdiff_t>(i); };
  for (std::size_t rank = 0; rank < ranks; ++rank)
    std::stable_sort(at(first[rank]), at(first[rank + 1]),
                     [](const Span& a, const Span& b) { return a.start < b.start; });
  return sorted;
}

}  // namespace

Recorder::Recorder(const Schedule& schedule, const EngineOptions& options) : schedule_(schedule) {
  current_.resize(schedule.ranks.size());
  trace_.iteration_end.resize(schedule.ranks.size());
  trace_.open_ended = static_cast<bool>(options.enough);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    if (!schedule.ranks[rank].in_background()) add_rank(rank, options);
}

void Recorder::add_rank(std::size_t rank, const EngineOptions& options) {
  const auto& ops = schedule_.program_of(RankId(rank)).ops;
  if (!trace_.open_ended || ops.empty())
    trace_.iteration_end[rank].assign(schedule_.iterations, Seconds(0));
  spans_ += ops.size() * schedule_.iterations;
  const bool recorded = spans_ <= options.span_limit || rank == 0;
  if (recorded && trace_.recorded_ranks == rank) trace_.recorded_ranks = rank + 1;
  const bool has_role =
      std::any_of(ops.begin(), ops.end(), [](const Op& op) { return op.role != UpdateRole::none; });
  if (trace_.recorded_ranks > rank || has_role) current_[rank].resize(ops.size());
}

void Recorder::end(RankOp what, std::uint32_t iteration, double now, double shift) {
  if (current_[what.rank].empty()) return;
  Span& span = current_[what.rank][what.op];
  span.rank = RankId(what.rank);
  span.op = OpId(what.op);
  span.iteration = iteration;
  span.end = Seconds(now);
  const Op& op = schedule_.program_of(span.rank).ops[what.op];
  if (what.rank >= trace_.recorded_ranks && op.role == UpdateRole::none) return;
  trace_.spans.push_back(span);
  Span& kept = trace_.spans.back();
  for (Seconds* when : {&kept.ready, &kept.start, &kept.end}) *when += Seconds(shift);
}

void Recorder::repeat(RankOp what, const Repeated& more) {
  if (what.rank >= trace_.recorded_ranks) return;
  const Span first = trace_.spans.back();
  for (std::uint32_t k = 1; k <= more.times; ++k) {
    Span& next = trace_.spans.emplace_back(first);
    next.op = OpId(what.op + k * more.period);
    for (Seconds* when : {&next.ready, &next.start, &next.end}) *when += Seconds(k * more.gap);
  }
}

Trace Recorder::take() {
  trace_.spans = in_order(trace_.spans, trace_.iteration_end.size());
  return std::move(trace_);
}

}  // namespace rehearse::inline engine
