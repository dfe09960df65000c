#pragma once

#include <string>

#include "cost/cost.hpp"

namespace rehearse::inline cost {

/// Shares that the roofline takes kernels on one GPU to reach. It is the only place where shares
/// and launch times come from: a model of kernels replaces this.
struct ReachedShares {
  double matrix = 0, matrix_fp32 = 0, matrix_memory = 0, attention = 0;
  /// Forward and backward, of contiguous images and of those that are channels_last, in 16 bits and
  /// in fp32.
  struct Depthwise {
    double forward = 0, backward = 0;
  } depthwise, last_depthwise, last_depthwise_fp32;
  double memory = 0;
  Seconds launch;
};

/// The scenario's own shares, over the GPU's (Gpu::kernels), over general ones.
ReachedShares reached_shares(const Gpu& gpu, const AnalyticEfficiency& asked);

/// Half-width of the 90 % interval of ln(time) of what is computed with them.
double analytic_error(const Gpu& gpu, const AnalyticEfficiency& asked);
/// The same of forward and backward: under FP8 wider, by kRelativeError, where no product of 8 bits
/// was measured on the GPU's chip and the share of 16 bits stands for it.
double analytic_error(const Gpu& gpu, const AnalyticEfficiency& asked, Precision precision);

/// AMD's chips have shares of large square products alone. Products narrower than 4,096 reached 1 /
/// 2.3 of that in bf16 and 1 / 4.0 in FP8 (GPT-2 XL on an MI300X, ROCm/TransformerEngine issue 72):
/// half-width of the interval of ln(time) of what is all of them.
inline constexpr double kNarrowError = 1.4;
/// Share of a model's products, by FLOPs, that is narrower than those that were measured; 0 for
/// chips that have curves by shape.
double narrow_share(const Model& model, const Gpu& gpu);

/// Whose shares they are: "of H100-SXM (...)", "of A40, carried over to A10G (...)".
std::string shares_line(const Gpu& gpu);

}  // namespace rehearse::inline cost
