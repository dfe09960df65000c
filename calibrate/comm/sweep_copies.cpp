#include "base/percentile.hpp"
#include "comm/sweep.hpp"
#include "comm/sweep_timing.hpp"

namespace rehearse::inline calibrate {
namespace {

SweepCopy measure_copy(Bytes size, bool to_device, bool pinned, int repetitions) {
  const auto bytes = static_cast<std::int64_t>(size.value());
  const torch::Tensor host =
      torch::zeros({bytes}, torch::TensorOptions(torch::kUInt8).pinned_memory(pinned));
  const torch::Tensor device =
      torch::zeros({bytes}, torch::TensorOptions(torch::kUInt8).device(torch::kCUDA));
  const torch::Tensor &from = to_device ? host : device, &to = to_device ? device : host;
  to.copy_(from, true);
  std::vector<Seconds> samples;
  for (int i = 0; i < repetitions; ++i)
    samples.push_back(time_of(device.device(), [&] { to.copy_(from, true); }));
  return {to_device, pinned, size, percentile(samples, 0.5)};
}

}  // namespace

std::vector<SweepCopy> measure_copies(const std::vector<Bytes>& sizes, int repetitions) {
  std::vector<SweepCopy> copies;
  for (const bool pinned : {true, false}) {
    for (const bool to_device : {true, false}) {
      for (const Bytes size : sizes)
        copies.push_back(measure_copy(size, to_device, pinned, repetitions));
    }
  }
  return copies;
}

}  // namespace rehearse::inline calibrate
