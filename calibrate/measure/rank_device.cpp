#include "measure/rank_device.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/error.hpp"
#include "measure/host_threads.hpp"

namespace rehearse::inline calibrate {

int threads_of_rank(int ranks_of_node) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / ranks_of_node);
}

std::unique_ptr<MeasuredDevice> make_rank_device(const RankEnvironment& self,
                                                 const RankDeviceOptions& options) {
  set_host_threads(options.threads > 0 ? options.threads : threads_of_rank(self.local_world_size));
  const int gpus = options.cpu ? 0 : static_cast<int>(torch::cuda::device_count());
  if (gpus == 0) return make_cpu_device();
  if (self.local_world_size > gpus && !options.shares_gpu) {
    throw InputError(
        fmt::format("error: {} ranks on a node with {} GPU{}, which NCCL does not let them share\n"
                    "remedy: start at most {}, or use the CPU with --cpu",
                    self.local_world_size, gpus, gpus == 1 ? "" : "s", gpus));
  }
  const auto index = static_cast<c10::DeviceIndex>(self.local_rank % gpus);
  c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA)
      .setDevice(c10::Device(c10::DeviceType::CUDA, index));
  return make_cuda_device();
}

}  // namespace rehearse::inline calibrate
