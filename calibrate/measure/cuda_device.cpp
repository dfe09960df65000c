#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "measure/cuda_allocations.hpp"
#include "measure/device.hpp"

namespace rehearse::inline calibrate {
namespace {

/// "580.95.05" of the kernel module's own line; "unknown" where it does not say.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (word.size() > 3 && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  }
  return "unknown";
}

std::string runtime_version() {
  int version = 0;
  C10_CUDA_CHECK(cudaRuntimeGetVersion(&version));
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Events are kept and used again: creating one costs microseconds.
class CudaDevice : public MeasuredDevice {
  /// The first entry of a statistic counts both pools.
  auto allocated() const {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(index_).allocated_bytes[0];
  }
  auto reserved() const {
    return c10::cuda::CUDACachingAllocator::getDeviceStats(index_).reserved_bytes[0];
  }
  cudaDeviceProp properties() const {
    cudaDeviceProp all{};
    C10_CUDA_CHECK(cudaGetDeviceProperties(&all, index_));
    return all;
  }

 public:
  /// The allocator has no statistics before its first allocation.
  CudaDevice() { torch::zeros({1}, torch_device()); }
  ~CudaDevice() override {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  torch::Device torch_device() const override { return {torch::kCUDA, index_}; }
  DeviceIdentity identity() const override {
    return {.name = properties().name,
            .driver = driver_version(),
            .cuda = runtime_version(),
            .allocator = cuda_allocator()};
  }
  Bytes memory() const override { return Bytes(static_cast<double>(properties().totalGlobalMem)); }
  double multiprocessors() const override { return properties().multiProcessorCount; }
  /// Tensor cores have fp16 from Volta on, tf32 and bf16 from Ampere on.
  std::vector<Precision> formats() const override {
    std::vector<Precision> all = {Precision::fp32};
    if (properties().major >= 7) all.push_back(Precision::fp16);
    if (properties().major >= 8) all.insert(all.end(), {Precision::tf32, Precision::bf16});
    return all;
  }

  /// Also from threads whose current device is another, such as a back end's.
  std::size_t mark() override {
    const c10::cuda::CUDAGuard guard(index_);
    if (used_ == events_.size()) {
      events_.emplace_back();
      C10_CUDA_CHECK(cudaEventCreate(&events_.back()));
    }
    C10_CUDA_CHECK(cudaEventRecord(events_[used_], c10::cuda::getCurrentCUDAStream(index_)));
    return used_++;
  }
  Seconds between(std::size_t from, std::size_t to) override {
    C10_CUDA_CHECK(cudaEventSynchronize(events_.at(to)));
    float milliseconds = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, events_.at(from), events_.at(to)));
    return Seconds(static_cast<double>(milliseconds) * 1e-3);
  }
  void forget_marks() override { used_ = 0; }

  bool runs_behind() const override { return true; }
  void wait() override { c10::cuda::device_synchronize(); }
  void keep_busy(Seconds time) override {
    int kilohertz = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, index_));
    at::cuda::sleep(static_cast<std::int64_t>(time.value() * 1e3 * kilohertz));
  }

  Bytes live() const override { return Bytes(static_cast<double>(allocated().current)); }
  Bytes peak() const override { return Bytes(static_cast<double>(allocated().peak)); }
  void reset_peak() override { c10::cuda::CUDACachingAllocator::resetPeakStats(index_); }
  std::optional<Bytes> reserved_peak() const override {
    return Bytes(static_cast<double>(reserved().peak));
  }
  void release_cached() override { c10::cuda::CUDACachingAllocator::emptyCache(); }
  void record_allocations() override { record_cuda_allocations(); }
  std::optional<AllocatorTrace> allocations() const override { return cuda_allocations(index_); }

 private:
  c10::DeviceIndex index_ = c10::cuda::current_device();
  std::vector<cudaEvent_t> events_;
  std::size_t used_ = 0;
};

}  // namespace

std::unique_ptr<MeasuredDevice> make_cuda_device() {
  if (!torch::cuda::is_available()) return nullptr;
  return std::make_unique<CudaDevice>();
}

}  // namespace rehearse::inline calibrate
