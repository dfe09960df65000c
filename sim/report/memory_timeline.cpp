#include "report/memory_timeline.hpp"

#include <algorithm>

namespace rehearse::inline report {
namespace {

/// After so many iterations the allocator has what it needs.
constexpr int kSettled = 3;

struct Change {
  Seconds time;
  std::uint32_t iteration;
  std::size_t op;
  TensorEvent event;
};

/// Of an operation at most, so that a trace of large models stays small.
constexpr std::size_t kMoments = 16;

Seconds moment(const Span& span, std::size_t index, std::size_t count, TensorEvent::Action action) {
  if (count == 1) return action == TensorEvent::Action::take ? span.start : span.end;
  if (index + 1 == count) return span.end;
  const std::size_t moments = std::min(count, kMoments) - 1;
  const std::size_t whole = index * moments / (count - 1);
  const double share = static_cast<double>(whole) / static_cast<double>(moments);
  return span.start + (span.end - span.start) * share;
}

std::vector<Change> changes_of(const Program& program, const std::vector<const Span*>& spans) {
  std::vector<Change> changes;
  for (const Span* span : spans) {
    const std::vector<TensorEvent>& events = program.ops[span->op.index()].memory;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events[i].action == TensorEvent::Action::finish) continue;
      if (events[i].once && span->iteration > 0) continue;
      changes.push_back({moment(*span, i, events.size(), events[i].action), span->iteration,
                         span->op.index(), events[i]});
    }
  }
  std::ranges::stable_sort(changes, {}, &Change::time);
  return changes;
}

/// Bytes of each tensor's block, and what is reserved after each operation.
struct Steady {
  std::vector<Bytes> size, reserved;
};

Steady steady_of(const Program& program, const MemoryDevice& device) {
  MemoryDevice boundless = device;
  boundless.capacity = Bytes(0);
  MemoryReplay replay(program, boundless);
  for (int i = 0; i < kSettled; ++i) replay.iterate_steadily();
  Steady steady{.size = {},
                .reserved = std::vector<Bytes>(program.ops.size(),
                                               Bytes(static_cast<double>(replay.reserved())))};
  replay.iterate([&](std::size_t op, const TensorEvent&) {
    steady.reserved[op] = Bytes(static_cast<double>(replay.reserved()));
  });
  for (std::size_t i = 0; i < program.tensors.size(); ++i)
    steady.size.emplace_back(static_cast<double>(replay.size_of(TensorId(i))));
  return steady;
}

}  // namespace

std::vector<MemorySample> memory_timeline(const Program& program, const MemoryDevice& device,
                                          const std::vector<const Span*>& spans) {
  const Steady steady = steady_of(program, device);
  std::vector<int> held(program.tensors.size(), 0);
  MemorySample now;
  const auto play = [&](const TensorEvent& event) {
    const std::size_t tensor = event.tensor.index();
    Bytes& use = now.use.by_kind[static_cast<std::size_t>(program.tensors[tensor].kind)];
    if (event.action == TensorEvent::Action::take) {
      use += steady.size[tensor];
      ++held[tensor];
    } else if (held[tensor] > 0) {  // the first iteration may give back what it never had
      use -= steady.size[tensor];
      --held[tensor];
    }
  };
  for (const TensorEvent& event : program.setup) play(event);
  std::vector<MemorySample> samples;
  for (const Change& change : changes_of(program, spans)) {
    play(change.event);
    now.time = change.time;
    now.iteration = change.iteration;
    if (device.caching) now.reserved = steady.reserved[change.op];
    const bool same_moment = !samples.empty() && samples.back().time == now.time;
    if (same_moment) {
      samples.back() = now;
    } else {
      samples.push_back(now);
    }
  }
  return samples;
}

}  // namespace rehearse::inline report
