#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "collective/nccl_buffers.hpp"
#include "report/anatomy.hpp"
#include "report/measures.hpp"
#include "report/run_facts.hpp"
#include "scenario/limits.hpp"

namespace rehearse::inline report {
namespace {

/// Groups with the shares of a peak that a report names.
constexpr std::size_t kSharesShown = 5;

bool tracks_memory(const Program& program) { return !program.tensors.empty(); }

Bytes headroom(const MemoryReport& memory) {
  const Bytes room =
      memory.capacity - memory.allocated_peak - memory.context - memory.communicators;
  // Tensors that would fit side by side may not fit into the holes that others leave.
  return memory.fits ? room : std::min(room, Bytes(-1));
}

/// Slots for groups that a program's collectives use.
std::set<std::size_t> used_slots(const Program& program) {
  std::set<std::size_t> slots;
  for (const Op& op : program.ops)
    if (const auto* collective = std::get_if<Collective>(&op.work)) slots.insert(collective->group);
  return slots;
}

Bytes buffers_of(const Scenario& scenario, const Schedule& schedule, GroupId which, bool nvlink) {
  if (scenario.cluster.nccl.at_least(kConnectsLate)) return communicator_buffers(nvlink);
  const Group& group = schedule.groups[which.index()];
  std::vector<Place> places;
  for (const RankId member : group.members) places.push_back(schedule.ranks[member.index()].place);
  return nccl_buffers(nccl_machine(scenario.cluster, places, static_cast<int>(group.ranks),
                                   static_cast<int>(group.nodes)));
}

/// Sums up NCCL's communicators of several ranks that a rank uses; a pipeline's messages go over
/// one.
Bytes communicators_of(const Scenario& scenario, const Schedule& schedule, RankId rank,
                       const std::set<std::size_t>& slots, bool nvlink) {
  std::set<GroupId> used;
  std::optional<GroupId> sends;
  for (const std::size_t slot : slots) {
    const GroupId group = schedule.ranks[rank.index()].groups[slot];
    if (schedule.groups[group.index()].axis == MeshAxis::pipeline)
      sends = group;
    else if (schedule.groups[group.index()].ranks > 1)
      used.insert(group);
  }
  Bytes sum;
  if (sends) used.insert(*sends);
  for (const GroupId group : used) sum += buffers_of(scenario, schedule, group, nvlink);
  return sum;
}

MemoryDevice device_of_rank(const Scenario& scenario, const Schedule& schedule, RankId rank,
                            const std::set<std::size_t>& slots) {
  const Place& place = schedule.ranks[rank.index()].place;
  MemoryDevice device{.caching = place.gpu >= 0 && device_of(scenario) == TapeDevice::cuda,
                      .allocator = scenario.allocator};
  if (place.gpu < 0) return device;
  const Node& node = scenario.cluster.node(place.node);
  device.capacity = node.gpu.memory;
  if (device.caching) {
    device.context = scenario.cuda_context.value_or(cuda_context());
    device.outside =
        device.context + communicators_of(scenario, schedule, rank, slots, node.nvlink.has_value());
  }
  return device;
}

/// One kind of rank: programs are shared by like ranks, so that each (program, device) is looked at
/// once.
struct Seat {
  RankId rank;  ///< the first
  MemoryDevice device;
};

/// Of the ranks that compute, or of the others (servers).
std::vector<Seat> seats(const Schedule& schedule, const Scenario& scenario, bool computing) {
  const std::vector<RankId> workers = computing_ranks(schedule);
  std::vector<std::set<std::size_t>> slots;
  for (const Program& program : schedule.programs) slots.push_back(used_slots(program));
  std::vector<Seat> seats;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const RankId rank(r);
    const ProgramId program = schedule.ranks[r].program;
    if (std::ranges::binary_search(workers, rank) != computing) continue;
    if (!tracks_memory(schedule.programs[program.index()])) continue;
    const MemoryDevice device = device_of_rank(scenario, schedule, rank, slots[program.index()]);
    const bool known = std::ranges::any_of(seats, [&](const Seat& seat) {
      return schedule.ranks[seat.rank.index()].program == program &&
             seat.device.capacity == device.capacity && seat.device.outside == device.outside;
    });
    if (!known) seats.push_back({rank, device});
  }
  return seats;
}

MemoryReport report_of(const Schedule& schedule, const Seat& seat, PeakDetail detail) {
  const Program& program = schedule.program_of(seat.rank);
  MemoryForecast forecast = forecast_memory(program, seat.device, detail);
  MemoryReport memory;
  memory.allocated_peak = forecast.allocated_peak;
  memory.reserved_peak = forecast.reserved_peak;
  memory.at_peak = forecast.at_peak;
  memory.peak_at = forecast.peak_label;
  memory.shares = std::move(forecast.shares);
  if (memory.shares.size() > kSharesShown) memory.shares.resize(kSharesShown);
  memory.context = seat.device.context;
  memory.communicators = seat.device.outside - memory.context;
  memory.capacity = seat.device.capacity;
  memory.fits = forecast.fits() && (memory.reserved_peak || memory.capacity == Bytes(0) ||
                                    memory.allocated_peak <= memory.capacity);
  memory.out_of_memory = std::move(forecast.out_of_memory);
  memory.alloc_retries = forecast.stats.retries;
  return memory;
}

/// The GPU with the least room left: of the largest peak where all GPUs are alike.
std::optional<MemoryReport> tightest(const Schedule& schedule, const Scenario& scenario,
                                     PeakDetail detail) {
  std::optional<MemoryReport> worst;
  std::vector<std::pair<Bytes, ProgramMemory>> programs;
  for (const bool computing : {true, false}) {
    for (const Seat& seat : seats(schedule, scenario, computing)) {
      const MemoryReport memory = report_of(schedule, seat, detail);
      programs.push_back({headroom(memory),
                          {schedule.program_of(seat.rank).name, seat.rank.index(),
                           memory.allocated_peak, memory.reserved_peak, memory.fits}});
      if (computing && (!worst || headroom(memory) < headroom(*worst))) worst = memory;
    }
    // Servers stand behind the GPUs: the memory of a host is not known.
    if (computing)
      std::ranges::stable_sort(programs, {}, [](const auto& one) { return one.first; });
  }
  if (worst)
    for (auto& [room, program] : programs) worst->programs.push_back(std::move(program));
  return worst;
}

/// Where the room runs out if it shrinks by as much per sample as between `start` and twice that,
/// as activations do.
std::int64_t extrapolate(const std::function<Bytes(std::int64_t batch)>& room, std::int64_t start) {
  const Bytes left = room(start);
  const double per_sample = (left - room(2 * start)).value() / static_cast<double>(start);
  if (per_sample <= 0) return start;
  const double batch = std::floor(static_cast<double>(start) + left.value() / per_sample);
  return static_cast<std::int64_t>(std::clamp(batch, 1.0, static_cast<double>(kLargestBatch)));
}

}  // namespace

std::optional<std::int64_t> largest_batch(const std::function<Bytes(std::int64_t batch)>& room,
                                          std::int64_t start) {
  const auto fits = [&](std::int64_t batch) { return room(batch) >= Bytes(0); };
  const std::int64_t guess =
      extrapolate(room, std::clamp<std::int64_t>(start, 1, kLargestBatch / 2));
  const bool upwards = fits(guess);
  std::int64_t inside = upwards ? guess : 0;
  std::int64_t outside = upwards ? kLargestBatch + 1 : guess;
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

MemoryDevice memory_device(const Scenario& scenario, const Schedule& schedule, RankId rank) {
  return device_of_rank(scenario, schedule, rank, used_slots(schedule.program_of(rank)));
}

std::vector<MemoryDevice> memory_devices(const Scenario& scenario, const Schedule& schedule) {
  std::vector<MemoryDevice> devices(schedule.programs.size());
  std::vector<bool> known(schedule.programs.size(), false);
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const std::size_t program = schedule.ranks[r].program.index();
    if (!known[program]) devices[program] = memory_device(scenario, schedule, RankId(r));
    known[program] = true;
  }
  return devices;
}

std::optional<MemoryReport> memory_report(const RunFacts& facts) {
  const Scenario& scenario = facts.scenario;
  std::optional<MemoryReport> memory =
      facts.memory ? facts.memory : tightest(facts.schedule, scenario, PeakDetail::shown);
  if (memory && facts.schedule_at_batch)
    memory->largest_batch_per_gpu =
        largest_batch_that_fits(scenario, facts.schedule_at_batch, *memory);
  return memory;
}

std::optional<std::int64_t> largest_batch_that_fits(
    const Scenario& scenario, const std::function<Schedule(std::int64_t batch)>& schedule_at,
    const MemoryReport& memory) {
  if (memory.capacity == Bytes(0)) return std::nullopt;
  std::map<std::int64_t, Bytes> known{{scenario.batch_per_gpu, headroom(memory)}};
  const auto room = [&](std::int64_t batch) {
    const auto found = known.find(batch);
    if (found != known.end()) return found->second;
    const std::optional<MemoryReport> other =
        tightest(schedule_at(batch), scenario, PeakDetail::left_out);
    return known[batch] = other ? headroom(*other) : memory.capacity;
  };
  return largest_batch(room, scenario.batch_per_gpu);
}

}  // namespace rehearse::inline report
