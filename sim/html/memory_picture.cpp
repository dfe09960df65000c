#include "html/memory_picture.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "report/memory_timeline.hpp"

namespace rehearse::inline html {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kStretches = 200;

/// The state at the step's beginning and its changes until the end.
std::vector<MemorySample> within(const std::vector<MemorySample>& samples, const StepShown& step) {
  std::vector<MemorySample> kept;
  for (const MemorySample& sample : samples) {
    if (sample.time >= step.to) break;
    if (sample.time <= step.from) kept.clear();
    kept.push_back(sample);
    kept.back().time = std::max(sample.time, step.from);
  }
  return kept;
}

/// Of each of many short stretches the first sample, which follows from the stretch before, and the
/// one that holds most.
std::vector<MemorySample> thinned(const std::vector<MemorySample>& samples, const StepShown& step) {
  if (samples.size() <= 2 * kStretches) return samples;
  const auto stretch_of = [&](const MemorySample& sample) {
    return static_cast<std::size_t>((sample.time - step.from) / (step.to - step.from) * kStretches);
  };
  std::vector<MemorySample> kept;
  for (std::size_t begin = 0; begin < samples.size();) {
    std::size_t end = begin, most = begin;
    for (; end < samples.size() && stretch_of(samples[end]) == stretch_of(samples[begin]); ++end) {
      if (samples[end].use.total() > samples[most].use.total()) most = end;
    }
    kept.push_back(samples[begin]);
    if (most != begin) kept.push_back(samples[most]);
    begin = end;
  }
  return kept;
}

Json sample_list(const std::vector<MemorySample>& samples, const StepShown& step) {
  Json list = Json::array();
  for (const MemorySample& sample : samples) {
    Json one = {(sample.time - step.from).value()};
    for (const Bytes size : sample.use.by_kind) one.push_back(std::llround(size.value()));
    one.push_back(sample.reserved ? Json(std::llround(sample.reserved->value())) : Json());
    list.push_back(std::move(one));
  }
  return list;
}

Json kinds() {
  Json names = Json::array();
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind)
    names.push_back(to_string(static_cast<MemoryKind>(kind)));
  return names;
}

}  // namespace

Json memory_pictures(const RunShown& run, const StepShown& step) {
  std::map<ProgramId, RankId> first_ranks;
  for (std::size_t rank = 0; rank < run.trace.recorded_ranks; ++rank)
    first_ranks.try_emplace(run.schedule.ranks[rank].program, RankId(rank));
  Json pictures = Json::array();
  for (const auto& [id, rank] : first_ranks) {
    const Program& program = run.schedule.programs[id.index()];
    std::vector<const Span*> spans;
    for (const Span& span : run.trace.spans) {
      if (span.rank == rank && !program.ops[span.op.index()].memory.empty()) spans.push_back(&span);
    }
    const MemoryDevice& device = run.devices[id.index()];
    const auto samples = thinned(within(memory_timeline(program, device, spans), step), step);
    if (samples.empty()) continue;
    pictures.push_back(
        {{"program", program.name},
         {"rank", rank.index()},
         {"capacity_bytes",
          device.capacity == Bytes(0) ? Json() : Json((device.capacity - device.outside).value())},
         {"kinds", kinds()},
         {"samples", sample_list(samples, step)}});
  }
  return pictures;
}

}  // namespace rehearse::inline html
