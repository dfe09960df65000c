#include <algorithm>
#include <cmath>

#include "report/anatomy.hpp"
#include "report/measures.hpp"

namespace rehearse {
namespace {

/// Where a search for the largest batch gives up: more samples than any GPU takes at once.
constexpr std::int64_t kBatchLimit = std::int64_t{1} << 24;

bool tracks_memory(const Program& program) {
  return !program.resident.empty() ||
         std::ranges::any_of(program.ops, [](const Op& op) { return !op.memory.empty(); });
}

Bytes capacity_of(const RankSpec& rank, const Cluster& cluster) {
  return cluster.node(rank.place.node).gpu.memory;
}

Bytes headroom(const MemoryReport& memory) {
  return memory.capacity - memory.allocated_peak - memory.context;
}

/// One GPU's: programs are shared by like ranks, so that each (program, capacity) is looked at
/// once.
struct Seat {
  ProgramId program;
  Bytes capacity;
  auto operator<=>(const Seat&) const = default;
};

std::vector<Seat> seats(const Schedule& schedule, const Cluster& cluster) {
  std::vector<Seat> seats;
  for (const RankId rank : computing_ranks(schedule)) {
    const RankSpec& spec = schedule.ranks[rank.index()];
    const Seat seat{spec.program, capacity_of(spec, cluster)};
    if (std::ranges::find(seats, seat) == seats.end()) seats.push_back(seat);
  }
  return seats;
}

/// CPUs, which a profile without CUDA tells, have no context.
Bytes context_of(const Scenario& scenario) {
  const bool cpu = std::ranges::any_of(scenario.cost_sources, [](const auto& source) {
    return source && source->profile->origin.cuda == "none";
  });
  return cpu ? Bytes(0) : cuda_context();
}

MemoryReport report_of(const Program& program, Bytes capacity, Bytes context) {
  const MemoryPeak peak = memory_peak(program);
  MemoryReport memory;
  memory.allocated_peak = peak.use.total();
  memory.at_peak = peak.use;
  memory.peak_at = peak.label;
  memory.context = context;
  memory.capacity = capacity;
  memory.fits = capacity == Bytes(0) || headroom(memory) >= Bytes(0);
  return memory;
}

/// The GPU with the least room left: of the largest peak where all GPUs are alike.
std::optional<MemoryReport> tightest(const Schedule& schedule, const Scenario& scenario) {
  std::optional<MemoryReport> worst;
  for (const Seat& seat : seats(schedule, scenario.cluster)) {
    const Program& program = schedule.programs[seat.program.index()];
    if (!tracks_memory(program)) continue;
    const MemoryReport memory = report_of(program, seat.capacity, context_of(scenario));
    if (!worst || headroom(memory) < headroom(*worst)) worst = memory;
  }
  return worst;
}

/// Where the room runs out if it shrinks by as much per sample as between `start` and twice that,
/// as activations do.
std::int64_t extrapolate(const std::function<Bytes(std::int64_t batch)>& room, std::int64_t start) {
  const Bytes left = room(start);
  const double per_sample = (left - room(2 * start)).value() / static_cast<double>(start);
  if (per_sample <= 0) return start;
  const double batch = std::floor(static_cast<double>(start) + left.value() / per_sample);
  return static_cast<std::int64_t>(std::clamp(batch, 1.0, static_cast<double>(kBatchLimit)));
}

}  // namespace

std::optional<std::int64_t> largest_batch(const std::function<Bytes(std::int64_t batch)>& room,
                                          std::int64_t start) {
  const auto fits = [&](std::int64_t batch) { return room(batch) >= Bytes(0); };
  const std::int64_t guess = extrapolate(room, std::clamp<std::int64_t>(start, 1, kBatchLimit / 2));
  const bool upwards = fits(guess);
  std::int64_t inside = upwards ? guess : 0;
  std::int64_t outside = upwards ? kBatchLimit + 1 : guess;
  for (std::int64_t step = 1; outside - inside > 1; step *= 2) {
    const std::int64_t candidate = upwards ? guess + step : guess - step;
    if (candidate <= inside || candidate >= outside) break;
    const bool fit = fits(candidate);
    (fit ? inside : outside) = candidate;
    if (fit != upwards) break;
  }
  while (outside - inside > 1) {
    const std::int64_t middle = inside + (outside - inside) / 2;
    (fits(middle) ? inside : outside) = middle;
  }
  if (inside == 0) return std::nullopt;
  return inside;
}

std::optional<MemoryReport> memory_report(const RunFacts& facts) {
  const Scenario& scenario = facts.scenario;
  std::optional<MemoryReport> memory = tightest(facts.schedule, scenario);
  if (!memory || memory->capacity == Bytes(0) || !facts.schedule_at_batch) return memory;
  const auto room = [&](std::int64_t batch) {
    const std::optional<MemoryReport> other = tightest(facts.schedule_at_batch(batch), scenario);
    return other ? headroom(*other) : memory->capacity;
  };
  memory->largest_batch_per_gpu = largest_batch(room, facts.scenario.batch_per_gpu);
  return memory;
}

}  // namespace rehearse
