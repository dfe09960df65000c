#include "cost/kernel_shares.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/kernel_curves.hpp"

namespace rehearse::inline cost {
namespace {

/// Of no GPU in particular. Products: the best bf16 product reaches 271 of 312 TFLOP/s on an A100
/// SXM, 253 of 312 on an A100 PCIe, 794 of 989 on an H100 (stas00/ml-engineering, "Maximum
/// Achievable Matmul FLOPS"): the lowest of the three. Attention: FlashAttention-2 reaches 50 to
/// 73 % on an A100 (Dao, arXiv:2307.08691). Memory: a read-only kernel reaches 88 % on an A100-80
/// (NVIDIA developer forum, topic 339083), a mix of reads and writes somewhat less.
constexpr double kMatrix = 0.8, kAttention = 0.6, kMemory = 0.85;
constexpr Seconds kLaunch{4e-6};

/// Of the fp32 peak: no tensor cores, little reuse. Ten layers of 3x3 and 7x7 on an H200, forward
/// and both gradients (platforms/kernels/data/convolution_hopper.csv): PyTorch's own kernels on
/// contiguous images, cuDNN's on those that are channels_last. Of these fp32's are as an H100's
/// ConvNeXt ran them: 36 layers, whose weight's gradient is cuDNN's wgrad2d_grouped_direct.
constexpr double kDepthwise = 0.042, kDepthwiseBackward = 0.022;
constexpr double kLastDepthwise = 0.167, kLastDepthwiseBackward = 0.112;
constexpr double kLastDepthwiseFp32 = 0.072, kLastDepthwiseFp32Backward = 0.0083;

KernelShares general() {
  return {.matrix = kMatrix,
          .matrix_fp32 = kMatrix,
          .matrix_memory = kMemory,
          .attention = kAttention,
          .memory = kMemory,
          .launch = kLaunch,
          .source = ""};
}

/// True where the scenario states what a step mostly depends on.
bool is_stated(const AnalyticEfficiency& asked) { return asked.matrix || asked.memory; }

}  // namespace

ReachedShares reached_shares(const Gpu& gpu, const AnalyticEfficiency& asked) {
  const KernelShares own = gpu.kernels.value_or(general());
  return {.matrix = asked.matrix.value_or(own.matrix),
          .matrix_fp32 = asked.matrix.value_or(own.matrix_fp32),
          .matrix_memory = asked.memory.value_or(own.matrix_memory),
          .attention = asked.attention.value_or(own.attention),
          .depthwise = {asked.depthwise.value_or(kDepthwise),
                        asked.depthwise.value_or(kDepthwiseBackward)},
          .last_depthwise = {asked.depthwise.value_or(kLastDepthwise),
                             asked.depthwise.value_or(kLastDepthwiseBackward)},
          .last_depthwise_fp32 = {asked.depthwise.value_or(kLastDepthwiseFp32),
                                  asked.depthwise.value_or(kLastDepthwiseFp32Backward)},
          .memory = asked.memory.value_or(own.memory),
          .launch = asked.kernel_launch.value_or(own.launch)};
}

double analytic_error(const Gpu& gpu, const AnalyticEfficiency& asked) {
  if (is_stated(asked)) return kAnalyticError;
  if (!gpu.kernels) return std::hypot(kAnalyticError, kUnknownKernelsError);
  if (!gpu.kernels->relative.empty()) return std::hypot(kAnalyticError, kRelativeError);
  return gpu.curves ? kCurvesError : kAnalyticError;
}

double analytic_error(const Gpu& gpu, const AnalyticEfficiency& asked, Precision precision) {
  const double error = analytic_error(gpu, asked);
  if (!is_narrow(precision) || is_stated(asked)) return error;
  const bool measured =
      precision != Precision::nvfp4 && gpu.curves && gpu.curves->products.contains("fp8");
  return measured ? error : std::hypot(error, kRelativeError);
}

double narrow_share(const Model& model, const Gpu& gpu) {
  const double wide = gpu.architecture->shares_hold_from;
  if (gpu.curves) return 0;
  double narrow = 0, all = 0;
  for (const Unit& unit : model.units) {
    for (const Operator& op : unit.operators) {
      if (op.kind != OperatorKind::matmul || op.product.columns <= 0) continue;
      all += op.forward_flops;
      if (std::min(op.product.columns, op.product.inner) < wide) narrow += op.forward_flops;
    }
  }
  return all > 0 ? narrow / all : 0;
}

std::string shares_line(const Gpu& gpu) {
  if (!gpu.kernels) return fmt::format("of no GPU in particular, {} has none of its own", gpu.name);
  const KernelShares& kernels = *gpu.kernels;
  if (kernels.relative.empty()) return fmt::format("of {} ({})", gpu.name, kernels.source);
  return fmt::format("of {}, carried over to {} ({})", kernels.relative, gpu.name, kernels.source);
}

}  // namespace rehearse::inline cost
