// ZeRO stage 1 (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
// Models", SC 2020).
#include "strategy/replicated.hpp"

namespace rehearse::inline strategy {

Schedule build(const Zero1& options, const Job& job) {
  return build_replicated(options.ddp, job, true);
}

}  // namespace rehearse::inline strategy
