#include "train/gather_stream.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace rehearse::inline calibrate {
namespace {

/// As PyTorch's FreeEventQueue.
constexpr std::size_t kUnitsInFlight = 2;

c10::Stream current_stream(torch::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

GatherStream::GatherStream(torch::Device device) : device_(device) {
  if (!device.is_cuda()) return;
  stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

void GatherStream::wait_for_current() {
  if (!stream_) return;
  c10::Event now(device_.type());
  now.record(current_stream(device_));
  now.block(*stream_);
}

void GatherStream::allocate(const torch::Tensor& tensor) {
  if (freed_.size() >= kUnitsInFlight) {
    wait_on_host(freed_.front());
    freed_.pop_front();
  }
  run([&tensor] { allocate_storage(tensor); });
}

void GatherStream::free(const torch::Tensor& tensor) {
  if (!stream_) return free_storage(tensor);
  const c10::Stream user = current_stream(device_);
  tensor.record_stream(user);
  free_storage(tensor);
  freed_.emplace_back(device_.type()).record(user);
}

}  // namespace rehearse::inline calibrate
