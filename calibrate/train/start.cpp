#include "train/start.hpp"

namespace rehearse::inline calibrate {
namespace {

/// What DistributedDataParallel broadcasts at a time.
constexpr std::size_t kBroadcastBytes = 250 * 1024 * 1024;

}  // namespace

void start_as_rank_0(const Chain& chain, const ProcessGroup& group) {
  const std::vector<torch::Tensor> weights = parameters(chain);
  c10d::verify_params_across_processes(group, weights, {});
  std::vector<torch::Tensor> state = buffers(chain);
  for (const torch::Tensor& weight : weights) state.push_back(weight.detach());
  c10d::broadcast_coalesced(group, state, kBroadcastBytes);
}

}  // namespace rehearse::inline calibrate
