#include "kernels/kernel_forms.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace rehearse::inline kernels {
namespace {

struct Tile {
  double rows, columns;
};
// What cuBLAS's kernels work on, and into how many parts they cut the inner dimension.
constexpr std::array<Tile, 7> kTiles = {
    {{256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}, {64, 32}}};
constexpr std::array<double, 8> kSplits = {1, 2, 4, 8, 16, 32, 64, 128};
constexpr double kWidestTile = 256 * 128, kStep = 32;
constexpr double kQueries = 128;  ///< rows that a block of fused attention holds

/// The larger of both, less sharply where `sharpness` is low.
double smooth_maximum(double a, double b, double sharpness) {
  const double high = std::max(a, b);
  const double low = std::min(a, b);
  return high == 0 ? 0 : high * std::pow(1 + std::pow(low / high, sharpness), 1 / sharpness);
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
      if (split > curve.most_splits) break;
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
  const double all = size.keys > 0 ? size.keys : size.tokens;
  const double reach = size.window > 0 ? std::min(all, size.window + kQueries) : all;
  const double keys = size.causal ? std::min(reach, (all + kQueries) / 2) : reach;
  const double blocks = size.batch * size.heads * std::ceil(size.tokens / kQueries);
  const double key_time = 2 * products * kQueries * size.width / rate;
  const double one = key_time * (keys + pass.keys);
  const double longest = key_time * (reach + pass.keys);
  const double work = size.causal ? blocks / device.sms * one + pass.tail * longest
                                  : std::ceil(blocks / device.sms) * one;
  const double bytes = (backward ? 2 : 1) * 4 * size.batch * size.tokens * size.width *
                       (size.heads + size.kv_heads * (all / size.tokens));
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
        const double weight =
            (i ? m.part : 1 - m.part) * (j ? n.part : 1 - n.part) * (l ? k.part : 1 - k.part);
        const int knot = ((m.low + i) * kResidualColumns + n.low + j) * kResidualInner + k.low + l;
        sum += weight * curves.residual[static_cast<std::size_t>(knot)];
      }
    }
  }
  return sum;
}

}  // namespace rehearse::inline kernels
