// Steps of a trace that names none.
#include <fmt/format.h>

#include <algorithm>

#include "foreign/traces/kineto_operators.hpp"
#include "foreign/traces/kineto_work.hpp"

namespace rehearse::inline foreign {
namespace {

/// Longer lists of operators are cut: a period takes the square of their number to find.
constexpr std::size_t kMostOperators = 20'000;

TraceSpan window(double begin, double end) {
  return {begin, static_cast<float>(end - begin), 0, 0, -1};
}

TraceSpan whole(const KinetoTrace& trace) {
  double begin = 0, end = 0;
  for (const TraceSpan& span : trace.operators) {
    begin = begin == 0 ? span.begin : std::min(begin, span.begin);
    end = std::max(end, span.end());
  }
  return window(begin, end);
}

}  // namespace

TracedWindows windows_of(const KinetoTrace& trace, const Operators& operators,
                         const std::vector<TraceSpan>& optimizer) {
  const TraceSpan all = whole(trace);
  TracedWindows found;
  std::vector<double> begins;
  for (const TraceSpan& note : optimizer)
    if (trace.name_of(note).starts_with("Optimizer.step")) begins.push_back(note.end());
  if (begins.size() > 1) {
    found.told_by =
        "the trace has no ProfilerStep: a step is from one end of Optimizer.step to the next";
    // Before the first and behind the last are no whole steps.
    for (std::size_t i = 0; i + 1 < begins.size(); ++i)
      found.windows.push_back(window(begins[i], begins[i + 1]));
    found.last_ends = begins.back();
    return found;
  }
  const auto busiest = std::ranges::max_element(
      operators.threads, {}, [](const auto& one) { return one.second.second - one.second.first; });
  if (busiest != operators.threads.end()) {
    const auto [first, last] = busiest->second;
    std::vector<std::uint32_t> names;
    for (std::uint32_t i = first; i < last; ++i) names.push_back(operators.all[i].name);
    const Repeats repeats = repeats_of(names);
    // Blocks of one pass repeat, too: a step's sequence covers most of the trace.
    if (repeats.count > 1 && 3 * repeats.count * repeats.period > 2 * names.size()) {
      found.told_by = fmt::format(
          "the trace has no ProfilerStep: {} operators repeat {} times, and are "
          "taken for steps",
          repeats.period, repeats.count);
      for (std::size_t i = 0; i < repeats.count; ++i) {
        const auto at = [&](std::size_t place) {
          return place < names.size() ? operators.all[first + place].begin : all.end();
        };
        const std::size_t place = repeats.first + i * repeats.period;
        found.windows.push_back(window(at(place), at(place + repeats.period)));
      }
      found.last_ends = found.windows.back().end();
      return found;
    }
  }
  found.told_by = "the trace has no ProfilerStep, and nothing repeats: all of it is one step";
  found.windows.push_back(all);
  return found;
}

Repeats repeats_of(const std::vector<std::uint32_t>& list) {
  const std::size_t size = std::min(list.size(), kMostOperators);
  constexpr std::size_t kLeastPeriod = 3;
  Repeats best;
  std::size_t covered = size / 3;
  for (std::size_t period = kLeastPeriod; period <= size / 2; ++period) {
    std::size_t run = 0;
    for (std::size_t i = 0; i + period <= size; ++i) {
      const bool same = i + period < size && list[i] == list[i + period];
      if (same) {
        ++run;
        continue;
      }
      const std::size_t count = run / period + 1;
      if (count > 1 && count * period > covered) {
        covered = count * period;
        best = {i - run, period, count};
      }
      run = 0;
    }
  }
  return best;
}

}  // namespace rehearse::inline foreign
