#include "memory/memory.hpp"

#include <algorithm>
#include <map>

namespace rehearse::inline memory {
namespace {

/// After so many iterations the allocator asks for no more, or releases and asks in every one.
constexpr int kMostIterations = 8;

/// The most that an iteration's tensors hold.
struct Peak {
  std::int64_t allocated = 0;
  std::size_t event = 0;  ///< the iteration's first event that holds so much; 0: it began with it
  std::size_t op = 0;     ///< of that event
};

/// One more iteration.
Peak iterate(MemoryReplay& replay) {
  Peak peak{.allocated = replay.allocated()};
  std::size_t events = 0;
  replay.iterate_steadily([&](std::size_t op, const TensorEvent&) {
    ++events;
    if (replay.allocated() > peak.allocated) peak = {replay.allocated(), events, op};
  });
  return peak;
}

std::vector<MemoryShare> shares_of(const Program& program,
                                   const std::vector<std::pair<TensorId, std::int64_t>>& held) {
  std::map<std::pair<std::uint32_t, MemoryKind>, MemoryShare> shares;
  for (const auto& [id, size] : held) {
    const Tensor& tensor = program.tensors[id.index()];
    MemoryShare& share = shares[{tensor.owner, tensor.kind}];
    share.owner = program.owners[tensor.owner];
    share.kind = tensor.kind;
    share.size += Bytes(static_cast<double>(size));
    ++share.tensors;
  }
  std::vector<MemoryShare> sorted;
  sorted.reserve(shares.size());
  for (auto& [key, share] : shares) sorted.push_back(std::move(share));
  std::ranges::stable_sort(sorted, std::greater<>(), &MemoryShare::size);
  return sorted;
}

/// What an iteration holds at its peak, played again from where it began.
void look_at(const Peak& peak, const Program& program, MemoryReplay& replay,
             MemoryForecast& forecast) {
  const auto keep = [&] {
    forecast.at_peak = replay.use();
    forecast.shares = shares_of(program, replay.held());
  };
  if (peak.event == 0) return keep();
  forecast.peak_op = peak.op;
  forecast.peak_label = program.ops[peak.op].label();
  std::size_t events = 0;
  replay.iterate_steadily([&](std::size_t, const TensorEvent&) {
    if (++events == peak.event) keep();
  });
}

/// Everything but whether it fits; what ran out of memory, if it does.
std::optional<OutOfMemory> fill(const Program& program, const MemoryDevice& device,
                                PeakDetail detail, MemoryForecast& forecast) {
  MemoryReplay replay(program, device);
  std::optional<MemoryReplay> before;
  Peak peak;
  const auto& stats = replay.allocator().stats();
  for (int i = 0; i < kMostIterations && !replay.out_of_memory(); ++i) {
    if (detail == PeakDetail::shown) before.emplace(replay);
    const std::int64_t asked = stats.device_allocations;
    peak = iterate(replay);
    if (i > 0 && stats.device_allocations == asked) break;
  }
  if (!replay.out_of_memory()) {
    forecast.allocated_peak = Bytes(static_cast<double>(peak.allocated));
    if (before) look_at(peak, program, *before, forecast);
  }
  forecast.stats = stats;
  if (device.caching) forecast.reserved_peak = Bytes(static_cast<double>(stats.reserved_peak));
  return replay.out_of_memory();
}

}  // namespace

MemoryForecast forecast_memory(const Program& program, const MemoryDevice& device,
                               PeakDetail detail) {
  MemoryForecast forecast;
  forecast.out_of_memory = fill(program, device, detail, forecast);
  if (forecast.fits()) return forecast;
  MemoryForecast larger{.out_of_memory = forecast.out_of_memory};
  MemoryDevice boundless = device;
  boundless.capacity = Bytes(0);
  fill(program, boundless, detail, larger);
  return larger;
}

Bytes cuda_context() {
  // Some 300 MB of context since CUDA 11.7 loads kernels lazily (more than 1 GB before that):
  // https://github.com/pytorch/pytorch/issues/107667. The rest is cuBLAS and cuDNN handles. A round
  // number for data-center GPUs under CUDA 12; it differs with the driver, the GPU and the
  // libraries.
  return Bytes(500.0 * 1024 * 1024);
}

Bytes communicator_buffers(bool nvlink) {
  // A buffer of 10 MiB for each connection that receives (4 MiB of the Simple protocol, the rest of
  // LL128 and LL; 10485760 B in NCCL's own log, https://github.com/NVIDIA/nccl/issues/1685), of
  // which a channel has three: its ring's, and a tree's from above and below. Memory is linear in
  // the channels (https://github.com/NVIDIA/nccl/issues/986): 16 over NVLink, 4 over PCIe or a
  // network are taken here; NCCL's tuning, all-to-all connections and user settings change them.
  constexpr double kConnection = 10.0 * 1024 * 1024, kConnections = 3;
  return Bytes(kConnection * kConnections * (nvlink ? 16 : 4));
}

}  // namespace rehearse::inline memory
