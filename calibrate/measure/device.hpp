#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>

#include "base/quantity.hpp"

namespace rehearse {

/// What a profile says about a device.
struct DeviceIdentity {
  std::string name;             ///< "NVIDIA A100-SXM4-40GB", or the processor's model name
  std::string driver = "none";  ///< of the GPU
  std::string cuda = "none";    ///< the runtime's version
};

/// A device with its clock and its allocator's counts. Times are those of the device's own stream:
/// events on a GPU, the steady clock on a CPU, whose work is done when its call returns.
class MeasuredDevice {
 public:
  MeasuredDevice() = default;
  MeasuredDevice(const MeasuredDevice&) = delete;
  MeasuredDevice& operator=(const MeasuredDevice&) = delete;
  virtual ~MeasuredDevice() = default;

  virtual torch::Device torch_device() const = 0;
  virtual DeviceIdentity identity() const = 0;

  /// Remembers this moment of the stream, and gives its number.
  virtual std::size_t mark() = 0;
  /// Time from one mark to another; waits for them.
  virtual Seconds between(std::size_t from, std::size_t to) = 0;
  virtual void forget_marks() = 0;

  /// Bytes that tensors hold now, and the most since the last reset.
  virtual Bytes live() const = 0;
  virtual Bytes peak() const = 0;
  virtual void reset_peak() = 0;
};

/// The CPU. Made before the first tensor: from then on it counts every allocation of tensors.
std::unique_ptr<MeasuredDevice> make_cpu_device();
/// The current CUDA device (the first, unless it was set); nothing where there is none, or none was
/// built in.
std::unique_ptr<MeasuredDevice> make_cuda_device();
/// The CUDA device where there is one, else the CPU.
std::unique_ptr<MeasuredDevice> make_device();

}  // namespace rehearse
