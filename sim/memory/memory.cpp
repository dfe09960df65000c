#include "memory/memory.hpp"

#include <algorithm>
#include <map>

namespace rehearse {
namespace {

/// After so many iterations what is reserved has settled, or goes up and down.
constexpr int kMostIterations = 8;

/// Plays until memory runs out or an iteration reserves no more; false in the former case.
bool settle(MemoryReplay& replay) {
  replay.iterate();
  for (int i = 1; i < kMostIterations && !replay.out_of_memory(); ++i) {
    const std::int64_t before = replay.reserved();
    replay.iterate();
    if (replay.reserved() == before) break;
  }
  return !replay.out_of_memory();
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
  for (auto& [key, share] : shares) sorted.push_back(std::move(share));
  std::ranges::stable_sort(sorted, std::greater<>(), &MemoryShare::size);
  return sorted;
}

/// One more iteration, in which the peak is looked for; then up to it once more, for what it holds.
void find_peak(const Program& program, MemoryReplay& replay, MemoryForecast& forecast) {
  std::int64_t peak = replay.allocated();
  std::size_t events = 0, peak_event = 0;
  replay.iterate([&](std::size_t op, const TensorEvent&) {
    ++events;
    if (replay.allocated() <= peak) return;
    peak = replay.allocated();
    peak_event = events;
    forecast.peak_op = op;
    forecast.peak_label = program.ops[op].label;
  });
  forecast.allocated_peak = Bytes(static_cast<double>(peak));
  const auto keep = [&] {
    forecast.at_peak = replay.use();
    forecast.shares = shares_of(program, replay.held());
  };
  if (peak_event == 0) return keep();
  events = 0;
  replay.iterate([&](std::size_t, const TensorEvent&) {
    if (++events == peak_event) keep();
  });
}

/// Everything but whether it fits; what ran out of memory, if it does.
std::optional<OutOfMemory> fill(const Program& program, const MemoryDevice& device,
                                MemoryForecast& forecast) {
  MemoryReplay replay(program, device);
  if (settle(replay)) find_peak(program, replay, forecast);
  forecast.stats = replay.allocator().stats();
  if (device.caching)
    forecast.reserved_peak = Bytes(static_cast<double>(forecast.stats.reserved_peak));
  return replay.out_of_memory();
}

}  // namespace

MemoryForecast forecast_memory(const Program& program, const MemoryDevice& device) {
  MemoryForecast forecast;
  forecast.out_of_memory = fill(program, device, forecast);
  if (forecast.fits()) return forecast;
  MemoryForecast larger{.out_of_memory = forecast.out_of_memory};
  MemoryDevice boundless = device;
  boundless.capacity = Bytes(0);
  fill(program, boundless, larger);
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

}  // namespace rehearse
