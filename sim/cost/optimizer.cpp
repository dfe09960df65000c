#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "cost/cost.hpp"

namespace rehearse {
namespace {

/// What one step of an optimizer keeps, moves and launches, in fused (single-pass) kernels.
struct OptimizerTraits {
  const char* name;
  double state;              ///< fp32 elements kept per parameter
  double accesses;           ///< fp32 reads and writes per parameter
  std::size_t passes;        ///< kernels over all tensors
  std::size_t tensor_lists;  ///< tensors that a kernel touches per parameter: p, g and states
};
// sgd: p, g -> p. momentum: p, g, m -> p, m. adam: p, g, m, v -> p, m, v.
// lamb (NVIDIA apex, csrc/multi_tensor_lamb.cu): norm of g (1), norm of p (1), stage 1 g, p, m, v
// -> m, v, update (7), norm of the update (1), stage 2 p, update -> p (3).
constexpr std::array<OptimizerTraits, 5> kOptimizers = {{{"sgd", 0, 3, 1, 2},
                                                         {"sgd_momentum", 1, 5, 1, 3},
                                                         {"adam", 2, 7, 1, 4},
                                                         {"adamw", 2, 7, 1, 4},
                                                         {"lamb", 2, 13, 5, 4}}};

/// Tensors that one multi-tensor kernel takes, by its number of lists less one
/// (depth_to_max_tensors in PyTorch's aten/src/ATen/native/cuda/MultiTensorApply.cuh).
constexpr std::array<std::size_t, 5> kTensorsPerKernel = {110, 64, 48, 36, 30};

const OptimizerTraits& traits(OptimizerKind kind) {
  return kOptimizers.at(static_cast<std::size_t>(kind));
}

}  // namespace

std::string to_string(OptimizerKind kind) { return traits(kind).name; }

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    names.reserve(kOptimizers.size());
    for (const OptimizerTraits& optimizer : kOptimizers) names.emplace_back(optimizer.name);
    return names;
  }();
  return kNames;
}

OptimizerKind parse_optimizer(const std::string& name) {
  for (std::size_t i = 0; i < kOptimizers.size(); ++i) {
    if (kOptimizers[i].name == name) return static_cast<OptimizerKind>(i);
  }
  throw std::invalid_argument(fmt::format("expected an optimizer, one of {}; got \"{}\"",
                                          fmt::join(optimizer_names(), ", "), name));
}

double state_elements_per_parameter(OptimizerKind kind, Precision precision) {
  return traits(kind).state + (parameter_element(precision) < Bytes(4) ? 1 : 0);
}

Bytes optimizer_bytes_per_parameter(OptimizerKind kind) { return Bytes(4 * traits(kind).accesses); }

double optimizer_kernels(OptimizerKind kind, std::size_t tensors) {
  const OptimizerTraits& optimizer = traits(kind);
  const std::size_t per_kernel = kTensorsPerKernel.at(optimizer.tensor_lists - 1);
  const std::size_t kernels_per_pass = (tensors + per_kernel - 1) / per_kernel;
  return static_cast<double>(optimizer.passes * kernels_per_pass);
}

}  // namespace rehearse
