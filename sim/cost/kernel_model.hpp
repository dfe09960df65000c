#pragma once

#include <array>
#include <map>
#include <optional>

#include "cluster/cluster.hpp"
#include "cost/cost.hpp"
#include "kernels/kernel_forms.hpp"
#include "model/model.hpp"

namespace rehearse::inline cost {

/// Kernels of one fit, and how far from theirs a kernel's sizes lie (distance).
struct Nearness {
  const MeasuredKernels* measured = nullptr;  ///< null: none says of which sizes it is
  double distance = 0;
};

/// How fast fused attention is beside FlashAttention-2, which is 1.7 to 3.0 times as fast as the
/// first version, and 1.3 to 2.5 times as fast as that in Triton (Dao, arXiv:2307.08691, 4.1):
/// geometric means. The third version is 1.5 to 2 times as fast forward on an H100, 1.5 to 1.75
/// backward (Shah et al., arXiv:2407.08608); so is cuDNN on an H200 (platforms/kernels, R).
double library_speed(AttentionKernel library, bool backward);

/// Library that runs fused attention on a GPU. PyTorch's scaled_dot_product_attention takes cuDNN
/// on SM 9.0 and 10.0 from 2.11 on, which brings a cuDNN above 9.15, and FlashAttention-2 elsewhere
/// (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, check_prefer_cudnn_attention).
AttentionKernel attention_library(AttentionKernel asked, const Gpu& gpu);

/// Times of kernels on one GPU in one precision, where curves were fitted for it.
class KernelModel {
 public:
  KernelModel(const Gpu& gpu, Precision precision);

  /// True where a product's curve is known in this precision: its own format's.
  bool knows_products() const { return product_ != nullptr; }
  bool knows_convolutions() const { return convolution_.share > 0; }
  /// Fused attention runs in 16 bits, and in fp32 where that was measured.
  bool knows_attention() const { return attends_; }
  /// Share of the memory bandwidth that an operator of no product reaches on elements of so many
  /// bytes; nothing: not known.
  std::optional<double> memory_share(const Operator& op, Bytes element, bool backward) const;

  /// `added_gradient`: of a weight, which its product adds to what is kept in fp32.
  enum class Role { forward, input_gradient, weight_gradient, added_gradient };
  /// A product's operands are as wide as the precision's activations, or have 8 bits and make 16.
  /// The latter's sums stand in the tensor cores' few bits (`narrow`), or are added in fp32 on the
  /// way (`exact_narrow`).
  enum class Operands { wide, narrow, exact_narrow };
  /// Under lasting load. Needs knows_products.
  Seconds product(const ProductSize& size, Role role, Operands operands = Operands::wide) const;
  /// The product that a convolution is made of. Needs knows_convolutions.
  Seconds convolution(const ProductSize& size, Role role, Bytes moved) const;
  /// A convolution of square images: the output's positions in each of `samples`, channels, the
  /// window's positions, the input's positions over the output's, groups.
  struct Image {
    double samples = 0, positions = 0, in = 0, out = 0;
    double window = 1, stride = 1, groups = 1;
  };
  bool convolves_in_fp32() const { return convolves_in_fp32_; }
  /// The product that a convolution is in fp32 without tensor cores. Needs convolves_in_fp32.
  Seconds fp32_convolution(const Image& image, Role role, Bytes moved) const;
  /// By Winograd's filtering, which cuDNN has for 3 x 3 with stride 1 in fp32. Nothing: for other
  /// windows, in other formats, and where tensor cores multiply tf32 faster than others fp32.
  std::optional<Seconds> winograd(const Image& image, Role role) const;
  /// Needs knows_attention; `library` is what runs. A width between those fitted takes the nearest.
  Seconds attention(const AttentionSize& size, bool backward, AttentionKernel library) const;

  /// Share of the memory bandwidth that multi-tensor kernels reach; nothing: not known.
  std::optional<double> optimizer_share(const Optimizer& optimizer) const;
  /// Elements that kernels write in a second which are not vectorized; nothing: not known.
  std::optional<double> unvectorized() const;
  /// Parameters that bitsandbytes' AdamW8bit updates in a second; nothing: not known.
  std::optional<double> adamw_8bit() const;
  /// Least time of an operator's own kernel, whatever bytes it moves: batch norm, max pooling,
  /// conversions of `elements` between layouts. 0: that is not known.
  Seconds image_kernel(const Operator& op, double batch, double elements, Precision precision,
                       bool backward) const;

  // What the times above rest on.
  Nearness near_product(const ProductSize& size, bool narrow) const;
  Nearness near_convolution(const ProductSize& size) const;
  Nearness near_attention(const AttentionSize& size, AttentionKernel library) const;
  /// Nearness of an operator that moves so many bytes.
  Nearness near_memory(const Operator& op, Bytes element, Bytes moved) const;

 private:
  const AttentionCurve& attention_curve(double width, bool cudnn) const;
  FlopsPerSecond unaligned_rate(const ProductSize& size, Role role) const;
  void take_measured(const std::string& format);
  void take_fp32_convolutions();
  Seconds winograd(const Image& image, Role role, double outputs) const;
  bool multiplies_fp32_as_fast(const Gpu& gpu, Precision precision) const;
  Seconds product_uncached(const ProductSize& size, Role role) const;
  Seconds narrow_product(const ProductSize& size, Role role, Operands operands) const;
  double role_share(Role role) const;
  Seconds batch_norm(const Operator& op, double batch, Precision precision, bool backward) const;
  /// `operands`: their bytes, without the result's.
  Seconds timed(const ProductCurve& curve, const KernelDevice& device, const ProductSize& size,
                Role role, Bytes operands) const;

  std::shared_ptr<const KernelCurves> curves_;
  const ProductCurve* product_ = nullptr;
  ProductCurve convolution_{};
  double convolution_weight_ = 1;         ///< the weight's gradient's share over that
  bool convolves_in_fp32_ = false;        ///< without tensor cores
  ProductCurve winograd_{};               ///< of its products; without a share: there is none
  const ProductCurve* narrow_ = nullptr;  ///< of 8 bits; null: carried over from 16
  KernelDevice device_, narrow_device_, convolution_device_;
  Bytes element_;
  double sustained_ = 1;
  bool attends_ = false, has_residual_ = false;
  bool cudnn_is_faster_ = false;  ///< than FlashAttention-2: on Hopper
  std::string format_;
  bool wide_ = false;           ///< elements of four bytes
  double memory_measured_ = 1;  ///< the bandwidth that shares are of, over the datasheet's
  const MeasuredKernels *of_products_ = nullptr, *of_narrow_ = nullptr, *of_convolutions_ = nullptr;
  const MeasuredKernels *of_rows_ = nullptr, *of_pointwise_ = nullptr;  ///< in 16 bits
  const MeasuredKernels *of_wide_rows_ = nullptr, *of_wide_pointwise_ = nullptr;
  mutable std::map<std::array<double, 5>, Seconds> known_;
};

}  // namespace rehearse::inline cost
