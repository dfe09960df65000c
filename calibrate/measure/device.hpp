#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "measure/allocator_trace.hpp"
#include "model/model.hpp"

namespace rehearse::inline calibrate {

/// Identity that a profile states for a device.
struct DeviceIdentity {
  std::string name;             ///< "NVIDIA A100-SXM4-40GB", or the processor's model name
  std::string driver = "none";  ///< of the GPU
  std::string cuda = "none";    ///< the runtime's version
  /// The caching allocator and the settings that it was given: "native", "native
  /// expandable_segments:True"; none where every tensor is taken and given back by itself.
  std::string allocator = "none";
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
  /// Size of all of its memory.
  virtual Bytes memory() const = 0;
  /// Number of processors that run blocks of a kernel: streaming multiprocessors; of a CPU the
  /// threads in use.
  virtual double multiprocessors() const = 0;
  /// Formats that its matrix products can compute in: of fp32, tf32, fp16, bf16.
  virtual std::vector<Precision> formats() const = 0;

  /// Remembers this moment of the stream, and gives its number.
  virtual std::size_t mark() = 0;
  /// Time from one mark to another; waits for them.
  virtual Seconds between(std::size_t from, std::size_t to) = 0;
  virtual void forget_marks() = 0;

  /// True where a call only launches its work, which is done later.
  virtual bool runs_behind() const = 0;
  /// Waits until all work is done.
  virtual void wait() = 0;
  /// Gives it work for as long, so that the calls that follow are launched before it comes to them
  /// and run one right after another. Nothing where it does not run behind.
  virtual void keep_busy(Seconds) {}

  /// Bytes that tensors hold now, and the most since the last reset.
  virtual Bytes live() const = 0;
  virtual Bytes peak() const = 0;
  virtual void reset_peak() = 0;
  /// The most that a caching allocator held since the last reset; nothing where there is none.
  virtual std::optional<Bytes> reserved_peak() const = 0;
  /// Gives back what such an allocator holds and no tensor needs.
  virtual void release_cached() = 0;
  /// From now on such an allocator keeps what it is asked for.
  virtual void record_allocations() {}
  /// Events that it kept since; nothing where there is no such allocator.
  virtual std::optional<AllocatorTrace> allocations() const { return std::nullopt; }
};

/// The CPU. Made before the first tensor: from then on it counts every allocation of tensors.
std::unique_ptr<MeasuredDevice> make_cpu_device();
/// The current CUDA device (the first, unless it was set); nothing where there is none, or none was
/// built in.
std::unique_ptr<MeasuredDevice> make_cuda_device();
/// The CUDA device where there is one, else the CPU.
std::unique_ptr<MeasuredDevice> make_device();

}  // namespace rehearse::inline calibrate
