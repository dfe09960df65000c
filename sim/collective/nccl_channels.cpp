#include <algorithm>
#include <bit>
#include <cmath>

#include "collective/nccl_buffers.hpp"
#include "collective/nccl_constants.hpp"

namespace rehearse::inline collective {
namespace {

using namespace nccl;  // NOLINT: the model's own constants

const NcclBounds& bounds_of(const NcclMachine& machine) { return machine.architecture->bounds; }

/// Those that the links inside a node are worth.
int channels_inside(const NcclMachine& machine) {
  if (machine.inner != InnerLink::nvlink) return kRing;
  const double links = machine.inside / bounds_of(machine).link;
  const int worth = static_cast<int>(std::lround(kChannelsOfLink * links));
  return std::clamp(worth, kRing, std::max(kRing, bounds_of(machine).max_channels));
}

/// Of the group's communicator.
int most_channels(const NcclMachine& machine) {
  const int inside = channels_inside(machine);
  if (machine.nodes == 1) return inside;
  const int between = kRing * std::min(machine.nics, machine.local());
  const int raised = between < bounds_of(machine).channels_between ? 2 * between : between;
  return machine.local() == 1 ? raised : std::clamp(raised, kRing, std::max(inside, kRing));
}

int nvls_channels(const NcclMachine& machine) {
  const NcclBounds& bounds = bounds_of(machine);
  return machine.nodes == 1 ? bounds.nvls_channels : bounds.nvls_tree_channels;
}

Bytes least_of_channel(const NcclMachine& machine, const NcclEstimate& estimate) {
  if (estimate.protocol == NcclProtocol::simple) return kSimpleOfChannel;
  if (estimate.protocol == NcclProtocol::ll128) return kLl128OfChannel;
  return estimate.algorithm == NcclAlgorithm::ring ? machine.ranks * kLlOfChannel : kLlOfChannel;
}

}  // namespace

int nccl_channels(const NcclMachine& machine, CollectiveKind kind, Bytes size,
                  const NcclEstimate& estimate) {
  if (estimate.algorithm == NcclAlgorithm::nvls || estimate.algorithm == NcclAlgorithm::nvls_tree)
    return nvls_channels(machine);
  int most = most_channels(machine);
  if (kind == CollectiveKind::all_to_all || kind == CollectiveKind::send_recv)
    most = static_cast<int>(std::bit_ceil(static_cast<unsigned>(most)));
  const double worth = std::floor(size / least_of_channel(machine, estimate));
  return worth >= most ? most : std::max(1, static_cast<int>(worth));
}

Bytes nccl_buffers(const NcclMachine& machine) {
  constexpr double kConnections = 3;
  Bytes sum = most_channels(machine) * kConnections * Bytes(10.0 * 1024 * 1024);
  const bool by_switch = nvls_channels(machine) > 0 && machine.local() > 2 &&
                         machine.options.at_least(kNvls) &&
                         machine.options.allows(NcclAlgorithm::nvls);
  if (by_switch) sum += 2.0 * nvls_channels(machine) * machine.local() * kChannelBuffer;
  return sum;
}

double nccl_compute_slowdown(const NcclMachine& machine, int channels) {
  const double all = machine.multiprocessors;
  if (all <= 0) return 1;
  return all / std::max(all - channels, all / 2);
}

}  // namespace rehearse::inline collective
