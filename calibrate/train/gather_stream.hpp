#pragma once

#include <c10/core/StreamGuard.h>
#include <torch/torch.h>

#include <deque>
#include <optional>
#include <utility>

#include "compat/torch_compat.hpp"

namespace rehearse::inline calibrate {

/// Where FSDP's all_gathers are issued. On a GPU that is a stream of its own, as in PyTorch: a
/// gather then begins when the host issues it, and not when all that was issued before it has been
/// computed. On a CPU it is nothing, since the back end's threads do the same.
class GatherStream {
 public:
  explicit GatherStream(torch::Device device);

  /// Lets all that is issued here from now on begin after all that the current stream has by now.
  void wait_for_current();
  /// Gives a freed tensor memory for a gather. On a GPU the host first waits, where two freed units
  /// may still be read, for the older one (`limit_all_gathers`): a host far ahead of the GPU would
  /// take memory for every unit.
  void allocate(const torch::Tensor& tensor);
  /// Does `launch` with this stream as the current one.
  template <class Launch>
  void run(Launch&& launch) {
    std::optional<c10::StreamGuard> guard;
    if (stream_) guard.emplace(*stream_);
    std::forward<Launch>(launch)();
  }
  /// Frees the memory, which is used again when the current stream has come to this point.
  void free(const torch::Tensor& tensor);

 private:
  torch::Device device_;
  std::optional<c10::Stream> stream_;
  std::deque<c10::Event> freed_;  ///< where the current stream was when each unit was freed
};

}  // namespace rehearse::inline calibrate
