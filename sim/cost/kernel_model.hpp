#pragma once

#include <array>
#include <map>
#include <optional>

#include "cluster/cluster.hpp"
#include "cluster/kernel_curves.hpp"
#include "cost/cost.hpp"
#include "model/model.hpp"

namespace rehearse {

/// A matrix product `rows` x `inner` by `inner` x `columns`, `batch` times in one kernel.
struct ProductSize {
  double rows = 0, columns = 0, inner = 0, batch = 1;
};

/// Fused attention of one batch: queries and keys of one length.
struct AttentionSize {
  double batch = 0, tokens = 0, heads = 0, kv_heads = 0, width = 0;
  bool causal = false;
};

/// The numbers that the closed forms need of a GPU, in one format.
struct KernelDevice {
  double peak = 0;       ///< FLOP/s
  double bandwidth = 0;  ///< bytes/s
  double sms = 0;
};

// The closed forms of platforms/kernels/closed_forms.py: what the fits are of. Without residuals
// and lasting load. No time falls as a size grows.

/// `moved`: bytes that the kernel reads and writes.
Seconds product_time(const ProductCurve& curve, const KernelDevice& device, const ProductSize& size,
                     Bytes moved);
/// Forward does two products a block, backward five.
Seconds attention_time(const AttentionPass& pass, const KernelDevice& device,
                       const AttentionSize& size, bool backward);
/// ln(time) that the residual adds; 0 where there is none.
double residual(const KernelCurves& curves, const ProductSize& size);

/// What kernels take on one GPU in one precision, where curves were fitted for it.
class KernelModel {
 public:
  KernelModel(const Gpu& gpu, Precision precision);

  /// True where a product's curve is known in this precision: its own format's.
  bool knows_products() const { return product_ != nullptr; }
  bool knows_convolutions() const { return convolution_.share > 0; }
  /// Fused attention runs in 16 bits.
  bool knows_attention() const { return attends_ && !curves_->attention.empty(); }
  /// Share of the memory bandwidth that an operator of no product reaches on elements of so many
  /// bytes; nothing: not known.
  std::optional<double> memory_share(const Operator& op, Bytes element, bool backward) const;

  enum class Role { forward, input_gradient, weight_gradient };
  /// Under lasting load, of operands as wide as the precision's activations; `narrow`: of 8 bits
  /// that make 16. Needs knows_products.
  Seconds product(const ProductSize& size, Role role, bool narrow = false) const;
  /// The product that a convolution is made of. Needs knows_convolutions.
  Seconds convolution(const ProductSize& size, Bytes moved) const;
  /// Needs knows_attention; `library` is what runs. A width between those fitted takes the nearest.
  Seconds attention(const AttentionSize& size, bool backward, AttentionKernel library) const;

 private:
  Seconds product_uncached(const ProductSize& size, Role role) const;
  Seconds narrow_product(const ProductSize& size, Role role) const;
  double role_share(Role role) const;

  std::shared_ptr<const KernelCurves> curves_;
  const ProductCurve* product_ = nullptr;
  ProductCurve convolution_{};
  const ProductCurve* narrow_ = nullptr;  ///< of 8 bits; null: carried over from 16
  KernelDevice device_, narrow_device_, convolution_device_;
  Bytes element_;
  double sustained_ = 1;
  bool attends_ = false, has_residual_ = false;
  mutable std::map<std::array<double, 5>, Seconds> known_;
};

}  // namespace rehearse
