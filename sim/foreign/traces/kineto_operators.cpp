#include "foreign/traces/kineto_operators.hpp"

#include <tuple>

namespace rehearse::inline foreign {

Operators outermost_of(const KinetoTrace& trace) {
  // Where two begin together, the longer one encloses the other.
  const auto order = ordered(trace.operators.size(), [&](std::uint32_t i) {
    const TraceSpan& span = trace.operators[i];
    return std::tuple(span.thread, span.begin, -span.duration);
  });
  Operators found;
  const auto count = [&] { return static_cast<std::uint32_t>(found.all.size()); };
  for (std::size_t place = 0; place < order.size(); ++place) {
    const std::uint32_t i = order[place];
    const TraceSpan& span = trace.operators[i];
    if (trace.gloo_threads.contains(span.thread)) continue;
    if (!trace.gloo_threads.empty()) {
      const TraceSpan* next =
          place + 1 < order.size() ? &trace.operators[order[place + 1]] : nullptr;
      const bool encloses =
          next != nullptr && next->thread == span.thread && next->begin < span.end();
      if (!encloses && !trace.name_of(span).starts_with("c10d::"))
        found.innermost.emplace_back(span.begin, span.end());
    }
    auto& thread = found.threads.try_emplace(span.thread, count(), count()).first->second;
    if (thread.first == count() || span.begin >= found.all.back().end()) {
      found.all.push_back({span.begin, span.duration, span.name, -1, span.thread});
      thread.second = count();
    }
    if (found.all.back().tie < 0) found.all.back().tie = span.tie;
    if (const auto elements = trace.parameters.find(i); elements != trace.parameters.end())
      found.parameters[count() - 1] = elements->second;
  }
  std::ranges::sort(found.innermost);
  return found;
}

}  // namespace rehearse::inline foreign
