#include <algorithm>
#include <bit>
#include <cmath>

#include "collective/nccl_constants.hpp"
#include "collective/nccl_model.hpp"

namespace rehearse::inline collective {
namespace {

using namespace nccl;  // NOLINT: the model's own constants

bool is_blackwell(const NcclMachine& machine) {
  return machine.architecture == GpuArchitecture::blackwell;
}

/// Those that the links inside a node are worth.
int channels_inside(const NcclMachine& machine) {
  if (machine.inner != InnerLink::nvlink) return kRing;
  const double links = machine.inside / (is_blackwell(machine) ? kBlackwellLink : kLink);
  const int most = is_blackwell(machine) ? kMostBlackwellChannels : kMostChannels;
  return std::clamp(static_cast<int>(std::lround(kChannelsOfLink * links)), kRing, most);
}

/// Of the group's communicator.
int most_channels(const NcclMachine& machine) {
  const int inside = channels_inside(machine);
  if (machine.nodes == 1) return inside;
  const int between = kRing * std::min(machine.nics, machine.local());
  const bool doubles = machine.architecture == GpuArchitecture::hopper || is_blackwell(machine);
  const int raised = doubles && between < kHopperBetween ? 2 * between : between;
  return machine.local() == 1 ? raised : std::clamp(raised, kRing, std::max(inside, kRing));
}

int nvls_channels(const NcclMachine& machine) {
  if (!is_blackwell(machine)) return kNvlsChannels;
  return machine.nodes == 1 ? kBlackwellNvlsChannels : kBlackwellNvlsTreeChannels;
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

double nccl_compute_slowdown(const NcclMachine& machine, int channels) {
  const double all = machine.multiprocessors;
  if (all <= 0) return 1;
  return all / std::max(all - channels, all / 2);
}

}  // namespace rehearse::inline collective
