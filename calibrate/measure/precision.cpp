#include "measure/precision.hpp"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

namespace rehearse::inline calibrate {
namespace {

// Templates, so that the calls need not exist: 2.4 replaced one function per device by one that
// takes the device.
using namespace at::autocast;

template <class Device, class Flag, class Type>
void set_autocast(Device device, Flag enabled, Type type) {
  if constexpr (requires { set_autocast_enabled(device, enabled); }) {
    set_autocast_dtype(device, type);
    set_autocast_enabled(device, enabled);
  } else if (device == torch::kCUDA) {
    set_autocast_gpu_dtype(type);
    set_enabled(enabled);
  } else {
    set_autocast_cpu_dtype(type);
    set_cpu_enabled(enabled);
  }
}

}  // namespace

std::string unsupported(Precision precision, torch::Device device) {
  if (precision == Precision::fp16 && !device.is_cuda()) {
    return "fp16 (autocast with torch.cuda.amp's loss scaling) needs a GPU; measure bf16";
  }
  if (precision == Precision::tf32 && !device.is_cuda()) return "tf32 needs a GPU";
  if (has_master_weights(precision)) {
    return to_string(precision) + " computes as bf16_pure does; measure that";
  }
  return "";
}

void apply_precision(Precision precision, const Chain& chain) {
  const bool tf32 = precision == Precision::tf32;
  at::globalContext().setAllowTF32CuBLAS(tf32);
  at::globalContext().setAllowTF32CuDNN(tf32);
  if (parameter_element(precision) == Bytes(2)) move_to(chain, torch::kBFloat16);
}

torch::ScalarType input_type(Precision precision) {
  return parameter_element(precision) == Bytes(2) ? torch::kBFloat16 : torch::kFloat32;
}

AutocastScope::AutocastScope(Precision precision, torch::Device device)
    : enabled_(is_autocast(precision)),
      device_(device.type()),
      type_(precision == Precision::fp16 ? at::kHalf : at::kBFloat16) {
  if (enabled_) set_autocast(device_, true, type_);
}

AutocastScope::~AutocastScope() {
  if (!enabled_) return;
  set_autocast(device_, false, type_);
  // The 16-bit copies of the weights; the graph keeps what it needs.
  at::autocast::clear_cache();
}

}  // namespace rehearse::inline calibrate
