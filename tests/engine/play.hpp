#pragma once

#include <cstring>
#include <string>

#include "base/child_process.hpp"
#include "engine/engine.hpp"

namespace rehearse {

/// run() in a child process, so that a test can simulate more than once; the trace comes back as
/// bytes.
inline Trace play(const Machine& machine) {
  const std::string text = in_child_process([&] {
    const Trace trace = run(machine);
    std::string bytes;
    const auto put = [&bytes](const void* data, std::size_t size) {
      bytes.append(static_cast<const char*>(data), size);
    };
    const std::size_t spans = trace.spans.size();
    put(&spans, sizeof spans);
    put(trace.spans.data(), spans * sizeof(Span));
    put(&trace.recorded_ranks, sizeof trace.recorded_ranks);
    put(&trace.end, sizeof trace.end);
    put(&trace.traffic, sizeof trace.traffic);
    const std::size_t shares = trace.ready_share.size();
    put(&shares, sizeof shares);
    put(trace.ready_share.data(), shares * sizeof(double));
    for (const auto& rank : trace.iteration_end) put(rank.data(), rank.size() * sizeof(Seconds));
    for (const auto& rank : trace.others_iteration_end) {
      const std::size_t iterations = rank.size();
      put(&iterations, sizeof iterations);
      put(rank.data(), iterations * sizeof(Seconds));
    }
    return bytes;
  });
  Trace trace;
  const char* at = text.data();
  const auto get = [&at](void* data, std::size_t size) {
    if (size > 0) std::memcpy(data, at, size);  // `data` may be null of nothing
    at += size;
  };
  std::size_t spans = 0;
  get(&spans, sizeof spans);
  trace.spans.resize(spans);
  get(trace.spans.data(), spans * sizeof(Span));
  get(&trace.recorded_ranks, sizeof trace.recorded_ranks);
  get(&trace.end, sizeof trace.end);
  get(&trace.traffic, sizeof trace.traffic);
  std::size_t shares = 0;
  get(&shares, sizeof shares);
  trace.ready_share.resize(shares);
  get(trace.ready_share.data(), shares * sizeof(double));
  trace.iteration_end.assign(machine.schedule.ranks.size(),
                             std::vector<Seconds>(machine.schedule.iterations));
  for (auto& rank : trace.iteration_end) get(rank.data(), rank.size() * sizeof(Seconds));
  while (at != text.data() + text.size()) {
    std::size_t iterations = 0;
    get(&iterations, sizeof iterations);
    auto& rank = trace.others_iteration_end.emplace_back(iterations);
    get(rank.data(), iterations * sizeof(Seconds));
  }
  return trace;
}

inline Trace play(const Schedule& schedule, const Cluster& cluster,
                  Fidelity fidelity = Fidelity::flow, const CommProfile* comm = nullptr,
                  const OtherJobs* others = nullptr) {
  Machine machine{.schedule = schedule, .cluster = cluster, .fidelity = fidelity};
  if (comm) machine.comm = *comm;
  if (others) machine.others = *others;
  return play(machine);
}

}  // namespace rehearse
