#include "measure/device_rates.hpp"

#include <ATen/Context.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace rehearse::inline calibrate {
namespace {

/// A call that takes longer than this is neither repeated nor followed by a larger one.
constexpr Seconds kLongest{0.1};
constexpr int kRepetitions = 5;

/// tf32 for as long as it lives, and then what was before.
class Tf32Scope {
 public:
  explicit Tf32Scope(bool enabled) : before_(at::globalContext().allowTF32CuBLAS()) {
    at::globalContext().setAllowTF32CuBLAS(enabled);
  }
  ~Tf32Scope() { at::globalContext().setAllowTF32CuBLAS(before_); }
  Tf32Scope(const Tf32Scope&) = delete;
  Tf32Scope& operator=(const Tf32Scope&) = delete;

 private:
  bool before_;
};

Seconds timed(MeasuredDevice& device, const std::function<void()>& work) {
  device.forget_marks();
  const std::size_t start = device.mark();
  work();
  return device.between(start, device.mark());
}

/// The shortest of some calls; the first, which finds cold caches, counts only where it is long.
Seconds shortest(MeasuredDevice& device, const std::function<void()>& work) {
  Seconds best = timed(device, work);
  for (int i = 0; i < kRepetitions && best < kLongest; ++i) {
    best = std::min(best, timed(device, work));
  }
  return best;
}

torch::ScalarType type_of(Precision format) {
  if (format == Precision::fp16) return torch::kFloat16;
  return format == Precision::bf16 ? torch::kBFloat16 : torch::kFloat32;
}

FlopsPerSecond product_rate(MeasuredDevice& device, Precision format) {
  const torch::NoGradGuard no_grad;
  const Tf32Scope tf32(format == Precision::tf32);
  const std::vector<std::int64_t> sides = device.torch_device().is_cuda()
                                              ? std::vector<std::int64_t>{2048, 4096, 8192}
                                              : std::vector<std::int64_t>{256, 512, 1024, 1536};
  FlopsPerSecond best{0};
  for (const std::int64_t side : sides) {
    const auto options = torch::TensorOptions(type_of(format)).device(device.torch_device());
    const torch::Tensor left = torch::ones({side, side}, options), right = left.clone();
    torch::Tensor product = torch::empty_like(left);
    const Seconds time = shortest(device, [&] { torch::mm_out(product, left, right); });
    const auto n = static_cast<double>(side);
    best = std::max(best, Flops(2 * n * n * n) / time);
    if (time >= kLongest) break;
  }
  return best;
}

BytesPerSecond copy_rate(MeasuredDevice& device) {
  const std::int64_t elements = std::int64_t{1} << (device.torch_device().is_cuda() ? 27 : 25);
  const auto options = torch::TensorOptions(torch::kFloat32).device(device.torch_device());
  const torch::Tensor source = torch::ones({elements}, options);
  torch::Tensor target = torch::zeros_like(source);
  const Seconds time = shortest(device, [&] { target.copy_(source); });
  return Bytes(2 * 4 * static_cast<double>(elements)) / time;
}

}  // namespace

DeviceRates measure_rates(MeasuredDevice& device) {
  DeviceRates rates;
  for (const Precision format : device.formats()) {
    const FlopsPerSecond rate = product_rate(device, format);
    if (format == Precision::fp32) rates.fp32 = rate;
    if (format == Precision::tf32) rates.tf32 = rate;
    if (format == Precision::fp16) rates.fp16 = rate;
    if (format == Precision::bf16) rates.bf16 = rate;
  }
  rates.memory_bandwidth = copy_rate(device);
  rates.memory = device.memory();
  return rates;
}

}  // namespace rehearse::inline calibrate
