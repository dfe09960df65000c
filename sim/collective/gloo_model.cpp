#include "collective/gloo_model.hpp"

#include <algorithm>

namespace rehearse::inline collective {

GlooTime gloo_time(CollectiveKind kind, Bytes size, int ranks, int nodes, const Node& node,
                   const GlooOptions& options) {
  const double steps = (kind == CollectiveKind::all_reduce ? 2.0 : 1.0) * (ranks - 1);
  BytesPerSecond rate = options.rate;
  if (nodes > 1) rate = std::min(rate, node.nic_bandwidth * node.transport.efficiency);
  const Bytes moved = size * bus_factor(kind, ranks);
  const Seconds transfer = moved / rate;
  const Seconds waits = std::max(Seconds(0), moved / options.alone - transfer);
  const Seconds staged = node.gpus > 0 ? 2 * size / node.pcie.bandwidth : Seconds(0);
  return {.latency = steps * options.per_step + waits + staged, .transfer = transfer};
}

}  // namespace rehearse::inline collective
