#include "comm/sweep_collective.hpp"

#include <algorithm>
#include <cmath>

namespace rehearse::inline calibrate {
namespace {

constexpr std::int64_t kElement = sizeof(float);

std::vector<torch::Tensor> parts_of(const torch::Tensor& whole, std::int64_t count) {
  return whole.chunk(count);
}

}  // namespace

Bytes measured_size(Bytes size, int ranks) {
  const double part = std::ceil(size.value() / static_cast<double>(kElement) / ranks);
  return Bytes(std::max(1.0, part) * ranks * static_cast<double>(kElement));
}

RepeatedCollective::RepeatedCollective(const ProcessGroup& group, CollectiveKind kind, Bytes size,
                                       torch::Device device)
    : group_(group), kind_(kind) {
  const std::int64_t ranks = group->getSize();
  size_ = measured_size(size, group->getSize());
  const auto whole = static_cast<std::int64_t>(size_.value()) / kElement;
  const std::int64_t part = whole / ranks;
  const bool gathers = kind == CollectiveKind::all_gather;
  // Zeros: their sum stays what it is however often it is taken.
  input_ = torch::zeros({gathers ? part : whole}, device);
  const bool in_place = kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast;
  const bool scatters = kind == CollectiveKind::reduce_scatter;
  output_ = in_place ? input_ : torch::zeros({scatters ? part : whole}, device);
  if (gathers) output_parts_ = parts_of(output_, ranks);
  if (scatters) input_parts_ = parts_of(input_, ranks);
  if (scatters) scratch_ = torch::zeros({whole}, device);
}

void RepeatedCollective::run() {
  std::vector<torch::Tensor> whole = {input_};
  if (kind_ == CollectiveKind::all_reduce) {
    group_->allreduce(whole)->wait();
  } else if (kind_ == CollectiveKind::broadcast) {
    group_->broadcast(whole)->wait();
  } else if (kind_ == CollectiveKind::all_gather) {
    std::vector<std::vector<torch::Tensor>> gathered = {output_parts_};
    group_->allgather(gathered, whole)->wait();
  } else if (kind_ == CollectiveKind::reduce_scatter) {
    run_reduce_scatter();
  } else {
    run_send_recv();
  }
}

/// Gloo's reduce_scatter is an all_reduce inside, or throws: parts are exchanged and summed here,
/// as the sharded training step does.
void RepeatedCollective::run_reduce_scatter() {
  if (input_.is_cuda()) {
    std::vector<torch::Tensor> outputs = {output_};
    std::vector<std::vector<torch::Tensor>> inputs = {input_parts_};
    group_->reduce_scatter(outputs, inputs)->wait();
    return;
  }
  exchange_parts(group_, scratch_, input_)->wait();
  torch::sum_out(output_, scratch_.view({group_->getSize(), -1}), 0);
}

/// To the next rank and from the one before, at once, as nccl-tests' sendrecv.
void RepeatedCollective::run_send_recv() {
  const int ranks = group_->getSize(), self = group_->getRank();
  std::vector<torch::Tensor> sent = {input_}, received = {output_};
  const auto sending = group_->send(sent, (self + 1) % ranks, 0);
  const auto receiving = group_->recv(received, (self + ranks - 1) % ranks, 0);
  sending->wait();
  receiving->wait();
}

}  // namespace rehearse::inline calibrate
