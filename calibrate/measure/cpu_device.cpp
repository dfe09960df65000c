#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "measure/counting_allocator.hpp"
#include "measure/device.hpp"
#include "measure/host_threads.hpp"

namespace rehearse::inline calibrate {
namespace {

/// "Intel(R) Xeon(R) CPU @ 2.20GHz"; "unknown CPU" where the system does not say.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

class CpuDevice : public MeasuredDevice {
 public:
  CpuDevice() { install_counting_allocator(); }

  torch::Device torch_device() const override { return torch::kCPU; }
  DeviceIdentity identity() const override { return {.name = processor_name()}; }
  Bytes memory() const override {
    return Bytes(static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                 static_cast<double>(sysconf(_SC_PAGE_SIZE)));
  }
  double multiprocessors() const override { return host_threads(); }
  std::vector<Precision> formats() const override { return {Precision::fp32, Precision::bf16}; }

  std::size_t mark() override {
    marks_.push_back(std::chrono::steady_clock::now());
    return marks_.size() - 1;
  }
  Seconds between(std::size_t from, std::size_t to) override {
    return Seconds(std::chrono::duration<double>(marks_.at(to) - marks_.at(from)).count());
  }
  void forget_marks() override { marks_.clear(); }

  bool runs_behind() const override { return false; }
  void wait() override {}

  Bytes live() const override { return counted_live(); }
  Bytes peak() const override { return counted_peak(); }
  void reset_peak() override { reset_counted_peak(); }
  std::optional<Bytes> reserved_peak() const override { return std::nullopt; }
  void release_cached() override {}

 private:
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

}  // namespace

std::unique_ptr<MeasuredDevice> make_cpu_device() { return std::make_unique<CpuDevice>(); }

std::unique_ptr<MeasuredDevice> make_device() {
  if (auto device = make_cuda_device()) return device;
  return make_cpu_device();
}

}  // namespace rehearse::inline calibrate
