#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ends.hpp"
#include "base/quantity.hpp"

namespace rehearse::inline kernels {

/// Time of a GPU's matrix products, as fitted by platforms/kernels/fit. It is a launch and whole
/// waves of tiles over the multiprocessors, of the best tile and split, beside the operands' bytes.
struct ProductCurve {
  Seconds launch;
  double share = 0;        ///< of the peak, in large tiles
  double traffic = 0;      ///< of the memory bandwidth
  double prologue = 0;     ///< of each tile, in elements of the inner dimension
  double small_tiles = 0;  ///< what each halving of a tile's area adds to its time per FLOP
  double sharpness = 1;    ///< how sharply work and traffic exclude each other
  Seconds split;           ///< of dividing the inner dimension among blocks
  double most_splits = 8;  ///< blocks that share it at most; fits know no more
  std::string source{};
};

/// Fused attention one way: blocks of 128 queries over the multiprocessors.
struct AttentionPass {
  Seconds launch;
  double share = 0;    ///< of the peak
  double keys = 0;     ///< that a block's start and end are worth
  double traffic = 0;  ///< of the memory bandwidth
  double tail = 0;     ///< how much of the longest block the last ones wait, if causal
};
struct AttentionCurve {
  double width = 0;    ///< of a head
  bool wide = false;   ///< in fp32; else in 16 bits
  bool cudnn = false;  ///< cuDNN's kernels; else FlashAttention-2's, or a serving stack's
  AttentionPass forward, backward;
  std::string source{};
};

/// How far a fit was off at points that it had not seen: |predicted / measured - 1|.
struct KernelError {
  std::string family, of, unseen, source;
  double points = 0, mean = 0, median = 0, p90 = 0, bias = 0;
};

/// Whose kernels one fit is of, and of what sizes.
struct MeasuredKernels {
  /// "gemm FORMAT" as in KernelCurves::products, "attention WIDTH", "convolution"; "pointwise, " or
  /// "rows, " with "16 bits" or "fp32".
  std::string kernels;
  std::string on;                   ///< a GPU; several, with commas: their mean
  bool own_chip = true;             ///< of the file's GPU, whatever the card
  std::optional<double> off;        ///< mean error at shapes that the fit had not seen
  std::vector<Ends<double>> sizes;  ///< from where to where each goes, as size_names orders them
};
/// Names of a kernel's sizes. Products and convolutions have rows, columns, inner; attention has
/// tokens and heads (of all samples); others have the bytes that they read and write.
std::vector<std::string> size_names(const std::string& kernels);
/// The factor by which sizes lie beyond those that were measured, the farthest of them; 1: within.
double distance(const MeasuredKernels& measured, const std::vector<double>& sizes);

/// The residual's knots: log2 of rows, columns and inner dimension, every second.
inline constexpr int kResidualRows = 7, kResidualColumns = 6, kResidualInner = 6;
inline constexpr std::size_t kResidualKnots = kResidualRows * kResidualColumns * kResidualInner;

/// Rates from a file that `rehearse calibrate kernels` wrote: what its shares are shares of,
/// whatever a datasheet says, and what is measured beside curves.
struct DeviceKernels {
  bool cpu = false;                   ///< the thread that issues kernels computes them
  FlopsPerSecond fp32, tf32, tensor;  ///< 0: no such format
  BytesPerSecond memory_bandwidth;
  Seconds launch;                   ///< of a kernel on hardly any elements
  double copies = 1;                ///< of the memory bandwidth
  Seconds optimizer_per_parameter;  ///< adamw, fp32, as PyTorch runs it by default
};

/// Shares of the memory bandwidth that PyTorch's multi-tensor optimizers reach, by what they are
/// asked for (foreach is the default), in fp32 and in 16 bits.
struct OptimizerShares {
  double foreach = 0, fused = 0, narrow_foreach = 0, narrow_fused = 0;
};

/// Elements that batch norm's kernels norm in a second, forward and backward. 0: not known.
struct NormRates {
  std::array<double, 2> all{};      ///< on a multiprocessor
  std::array<double, 2> channel{};  ///< of one channel, which is one block's; 0: of many blocks
};

/// Curves fitted to kernels on one GPU (platforms/kernels/NAME.yaml).
struct KernelCurves {
  std::string gpu, date;
  double sms = 0;  ///< streaming multiprocessors
  /// Share that products in frameworks reach of those in serving benchmarks: clocks under lasting
  /// load, other libraries.
  double sustained = 1;
  std::string sustained_source;
  /// Curves by format: "tensor" (16 bits), "fp8", "tf32", "fp32".
  std::map<std::string, ProductCurve> products;
  /// Shares beside the forward product's: of the input's gradient and of the weight's.
  double input_gradient = 1, weight_gradient = 1;
  /// The same shares for tf32, whose operands Hopper multiplies along rows alone. 0: as of 16 bits.
  double tf32_input_gradient = 0, tf32_weight_gradient = 0;
  /// Share of fp8 products whose sums are added in fp32 on the way (cuBLAS without fast
  /// accumulation), beside those of tensor cores alone.
  double exact_fp8 = 1;
  std::vector<double> residual;           ///< ln(time) added to 16-bit products; empty: not known
  std::vector<AttentionCurve> attention;  ///< by width; empty: not known
  /// A convolution on tensor cores beside a product: its share over the product's.
  double convolution = 1, convolution_prologue = 0, convolution_small_tiles = 0;
  /// The same for tf32: its share over the tf32 product's, and the weight's gradient's over that.
  /// 0: as of 16 bits.
  double tf32_convolution = 0, tf32_convolution_weight = 0;
  /// Shares of the memory bandwidth that kernels reach which make each element alone, and those
  /// that reduce rows (norms, softmax, losses); in 16 bits, and in fp32.
  double pointwise = 0, rows = 0, rows_backward = 0;
  double wide_pointwise = 0, wide_rows = 0, wide_rows_backward = 0;
  std::optional<OptimizerShares> optimizer;  ///< nothing: as other kernels that memory bounds
  /// Elements that a multiprocessor writes in a second in kernels that are not vectorized: 16 bits
  /// made fp32, broadcast and strided operands. 0: not known.
  double unvectorized = 0;
  /// Parameters that a multiprocessor updates in a second in bitsandbytes' AdamW8bit, which looks
  /// states of a byte up in tables: its bytes would take a twelfth of that time. 0: not known.
  double adamw_8bit = 0;
  /// PyTorch's batch norm of contiguous fp32 (cuDNN's), and of bf16 contiguous and channels_last.
  NormRates norm_fp32, norm_bf16, norm_bf16_last;
  /// Elements of windows that a multiprocessor reads in a second in max pooling, forward and
  /// backward, of contiguous tensors and of channels_last. 0: not known.
  std::array<double, 2> max_pool{}, max_pool_last{};
  /// Elements that a multiprocessor converts in a second between NCHW and NHWC (cuDNN's). 0: not
  /// known.
  double conversion = 0;
  /// FLOP/s of a multiprocessor in products of 16 bits whose rows begin at any element, or at any
  /// second; and of tf32 at any element. 0: as aligned ones.
  FlopsPerSecond unaligned, half_aligned, unaligned_tf32;
  /// The same of batched products whose rows begin at every fourth element of 16 bits. 0: as
  /// aligned ones.
  FlopsPerSecond batched_by_four;
  /// Times of cuDNN's attention in FP8 over those in 16 bits, forward and backward. 0: not known,
  /// taken as in 16 bits.
  std::array<double, 2> fp8_attention{};
  std::optional<DeviceKernels> device;  ///< nothing: shares are of the datasheet
  std::vector<MeasuredKernels> measured;
  std::vector<KernelError> errors;

  /// Null: nothing was measured.
  const MeasuredKernels* find_measured(const std::string& kernels) const;
};

/// A file that read_kernel_curves reads; `comment` is its first line.
std::string to_yaml(const KernelCurves& curves, const std::string& comment);

/// InputError where the file is none or has mistakes.
std::shared_ptr<const KernelCurves> read_kernel_curves(const std::filesystem::path& file);

}  // namespace rehearse::inline kernels
