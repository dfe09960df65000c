#include "cost/kernel_model.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "cost/peak.hpp"

namespace rehearse {
namespace {

struct Tile {
  double rows, columns;
};
// What cuBLAS's kernels work on, and into how many parts they cut the inner dimension.
constexpr std::array<Tile, 7> kTiles = {
    {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}, {64, 32}}};
constexpr std::array<double, 4> kSplits = {1, 2, 4, 8};
constexpr double kWidestTile = 256 * 128, kStep = 32;
constexpr double kQueries = 128;  ///< rows that a block of fused attention holds

/// The larger of both, less sharply where `sharpness` is low.
double smooth_maximum(double a, double b, double sharpness) {
  const double high = std::max(a, b);
  const double low = std::min(a, b);
  return high == 0 ? 0 : high * std::pow(1 + std::pow(low / high, sharpness), 1 / sharpness);
}

const ProductCurve* curve_of(const KernelCurves& curves, const std::string& format) {
  const auto found = curves.products.find(format);
  return found == curves.products.end() ? nullptr : &found->second;
}

/// The format that a precision's products run in; null: none that tables know.
const char* format_of(const Gpu& gpu, Precision precision) {
  if (!multiplies_on_tensor_cores(gpu, precision)) return "fp32";
  return precision == Precision::tf32 ? "tf32" : "tensor";
}

/// Beside FlashAttention-2, which is 1.7 to 3.0 times as fast as the first version, and 1.3 to 2.5
/// times as fast as that in Triton (Dao, arXiv:2307.08691, 4.1): geometric means. The third version
/// is 1.5 to 2 times as fast forward on an H100, 1.5 to 1.75 backward (Shah et al.,
/// arXiv:2407.08608).
double library_speed(AttentionKernel library, bool backward) {
  switch (library) {
    case AttentionKernel::flash1:
      return 1 / 2.26;
    case AttentionKernel::flash2:
      return 1;
    case AttentionKernel::flash3:
      return backward ? 1.62 : 1.73;
    case AttentionKernel::triton:
      return 1 / 1.8;
  }
  return 1;
}

/// Where `size` lies between knots, and the part that the later one has.
struct Knot {
  int low;
  double part;
};
Knot knot_of(double size, int first, int knots) {
  const double last = first + 2.0 * (knots - 1);
  const double at = (std::clamp(std::log2(size), double(first), last) - first) / 2;
  const int low = std::min(static_cast<int>(at), knots - 2);
  return {low, at - low};
}

}  // namespace

Seconds product_time(const ProductCurve& curve, const KernelDevice& device, const ProductSize& size,
                     Bytes moved) {
  const double reads = moved.value() / (curve.traffic * device.bandwidth);
  double best = 0;
  for (const Tile& tile : kTiles) {
    const double area = tile.rows * tile.columns;
    const double rate = curve.share * device.peak / device.sms /
                        (1 + curve.small_tiles * std::log2(kWidestTile / area));
    const double tiles =
        std::ceil(size.rows / tile.rows) * std::ceil(size.columns / tile.columns) * size.batch;
    for (const double split : kSplits) {
      const double depth = std::ceil(size.inner / split / kStep) * kStep + curve.prologue;
      const double work = std::ceil(tiles * split / device.sms) * 2 * area * depth / rate;
      double time = smooth_maximum(work, reads, curve.sharpness);
      if (split > 1) {
        time += curve.split.value() +
                8 * split * size.rows * size.columns * size.batch / device.bandwidth;
      }
      if (best == 0 || time < best) best = time;
    }
  }
  return curve.launch + Seconds(best);
}

Seconds attention_time(const AttentionPass& pass, const KernelDevice& device,
                       const AttentionSize& size, bool backward) {
  const double products = backward ? 5 : 2;
  const double rate = pass.share * device.peak / device.sms;
  const double keys =
      size.causal ? std::min(size.tokens, (size.tokens + kQueries) / 2) : size.tokens;
  const double blocks = size.batch * size.heads * std::ceil(size.tokens / kQueries);
  const double key_time = 2 * products * kQueries * size.width / rate;
  const double one = key_time * (keys + pass.keys);
  const double longest = key_time * (size.tokens + pass.keys);
  const double work = size.causal ? blocks / device.sms * one + pass.tail * longest
                                  : std::ceil(blocks / device.sms) * one;
  const double bytes = (backward ? 2 : 1) * 4 * size.batch * size.tokens * size.width *
                       (size.heads + size.kv_heads);
  const double reads = bytes / (pass.traffic * device.bandwidth);
  return pass.launch + Seconds(smooth_maximum(std::max(work, longest), reads, 4));
}

double residual(const KernelCurves& curves, const ProductSize& size) {
  if (curves.residual.empty()) return 0;
  const Knot m = knot_of(size.rows, 4, kResidualRows);
  const Knot n = knot_of(size.columns, 6, kResidualColumns);
  const Knot k = knot_of(size.inner, 6, kResidualInner);
  double sum = 0;
  for (const int i : {0, 1}) {
    for (const int j : {0, 1}) {
      for (const int l : {0, 1}) {
        const double weight = (i ? m.part : 1 - m.part) * (j ? n.part : 1 - n.part) *
                              (l ? k.part : 1 - k.part);
        const int knot = ((m.low + i) * kResidualColumns + n.low + j) * kResidualInner + k.low + l;
        sum += weight * curves.residual[static_cast<std::size_t>(knot)];
      }
    }
  }
  return sum;
}

const std::vector<std::string>& attention_kernel_names() {
  static const std::vector<std::string> kNames = {"flash1", "flash2", "flash3", "triton"};
  return kNames;
}

KernelModel::KernelModel(const Gpu& gpu, Precision precision)
    : curves_(gpu.curves), element_(activation_element(precision)) {
  if (!curves_) return;
  const double sms = gpu.sms ? *gpu.sms : curves_->sms;
  const std::string format = format_of(gpu, precision);
  // Other formats were measured in frameworks, or on units that draw less power.
  if (format == "tensor") sustained_ = curves_->sustained;
  product_ = curve_of(*curves_, format);
  device_ = {gpu.matrix_peak(precision).value(), gpu.memory_bandwidth.value(), sms};
  narrow_ = curve_of(*curves_, "fp8");
  narrow_device_ = device_;
  narrow_device_.peak = narrow_peak(gpu, precision).value();
  // Shapes that a library does well or badly are those of one chip's kernels.
  has_residual_ = format == "tensor" && sms == curves_->sms;
  attends_ = activation_element(precision) == Bytes(2);
  if (!convolves_on_tensor_cores(gpu, precision)) return;
  const ProductCurve* base = product_;
  if (precision == Precision::fp32) base = curve_of(*curves_, "tf32");
  if (base == nullptr) return;
  convolution_ = *base;
  convolution_.share *= curves_->convolution * sustained_;
  convolution_.prologue = curves_->convolution_prologue;
  convolution_.small_tiles = curves_->convolution_small_tiles;
  convolution_device_ = {convolution_peak(gpu, precision).value(), gpu.memory_bandwidth.value(),
                         sms};
}

Seconds KernelModel::product(const ProductSize& size, Role role, bool narrow) const {
  const std::array<double, 5> key = {size.rows, size.columns, size.inner, size.batch,
                                     static_cast<double>(role) + (narrow ? 10 : 0)};
  const auto [found, is_new] = known_.try_emplace(key);
  if (is_new) found->second = narrow ? narrow_product(size, role) : product_uncached(size, role);
  return found->second;
}

double KernelModel::role_share(Role role) const {
  if (role == Role::input_gradient) return curves_->input_gradient;
  return role == Role::weight_gradient ? curves_->weight_gradient : 1;
}

/// What was measured of 8 bits was so under lasting load.
Seconds KernelModel::narrow_product(const ProductSize& size, Role role) const {
  check(product_ != nullptr, "a product without a curve");
  ProductCurve curve = narrow_ != nullptr ? *narrow_ : *product_;
  curve.share *= role_share(role) * (narrow_ != nullptr ? 1 : sustained_);
  const Bytes moved(size.batch * (size.rows * size.inner + size.inner * size.columns +
                                  element_.value() * size.rows * size.columns));
  return product_time(curve, narrow_device_, size, moved);
}

Seconds KernelModel::product_uncached(const ProductSize& size, Role role) const {
  check(product_ != nullptr, "a product without a curve");
  ProductCurve curve = *product_;
  curve.share *= sustained_ * role_share(role);
  const Bytes moved = size.batch *
                      (size.rows * size.inner + size.inner * size.columns +
                       size.rows * size.columns) *
                      element_;
  const Seconds time = product_time(curve, device_, size, moved);
  return has_residual_ ? time * std::exp(residual(*curves_, size)) : time;
}

Seconds KernelModel::convolution(const ProductSize& size, Bytes moved) const {
  check(knows_convolutions(), "a convolution without a curve");
  return product_time(convolution_, convolution_device_, size, moved);
}

std::optional<double> KernelModel::memory_share(const Operator& op, Bytes element,
                                                bool backward) const {
  if (!curves_) return std::nullopt;
  const bool wide = element > Bytes(2);
  if (op.by_row) {
    return wide ? curves_->wide_rows : backward ? curves_->rows_backward : curves_->rows;
  }
  return wide ? curves_->wide_pointwise : curves_->pointwise;
}

Seconds KernelModel::attention(const AttentionSize& size, bool backward,
                               AttentionKernel library) const {
  check(knows_attention(), "attention without a curve");
  const auto nearest = std::min_element(
      curves_->attention.begin(), curves_->attention.end(),
      [&](const AttentionCurve& a, const AttentionCurve& b) {
        return std::abs(std::log(a.width / size.width)) < std::abs(std::log(b.width / size.width));
      });
  AttentionPass pass = backward ? nearest->backward : nearest->forward;
  pass.share *= library_speed(library, backward);
  return attention_time(pass, device_, size, backward);
}

}  // namespace rehearse
