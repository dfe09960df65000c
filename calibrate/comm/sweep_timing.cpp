#include "comm/sweep_timing.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace rehearse::inline calibrate {

namespace {

Seconds processor_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return Seconds(seconds(usage.ru_utime) + seconds(usage.ru_stime));
}

}  // namespace

CollectiveTime time_collective(const ProcessGroup& group, RepeatedCollective& collective,
                               torch::Device device, int calls) {
  collective.run();
  if (device.is_cuda()) torch::cuda::synchronize();
  barrier(group);
  const Seconds before = processor_time();
  const Seconds whole = time_of(device, [&] {
    for (int call = 0; call < calls; ++call) collective.run();
  });
  return {whole / calls, (processor_time() - before) / calls};
}

std::vector<Seconds> slowest_of_ranks(const ProcessGroup& group, torch::Device device,
                                      const std::vector<Seconds>& samples) {
  if (samples.empty()) return {};
  std::vector<double> numbers;
  numbers.reserve(samples.size());
  for (const Seconds sample : samples) numbers.push_back(sample.value());
  std::vector<torch::Tensor> tensors = {torch::tensor(numbers, torch::kFloat64).to(device)};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  group->allreduce(tensors, options)->wait();
  const torch::Tensor slowest = tensors.front().cpu();
  std::vector<Seconds> result;
  for (std::int64_t i = 0; i < slowest.numel(); ++i)
    result.emplace_back(slowest.data_ptr<double>()[i]);
  return result;
}

int times_in(Seconds whole, Seconds one, int most) {
  const double times = std::ceil(whole / std::max(one, Seconds(1e-9)));
  return static_cast<int>(std::clamp(times, 1.0, static_cast<double>(most)));
}

}  // namespace rehearse::inline calibrate
