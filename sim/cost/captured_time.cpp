// Times the kernels of a captured model: as the simulator's own operators where they are such, by
// the products that they are made of, or by the bytes that they move.
#include "cost/captured_time.hpp"

#include <algorithm>
#include <map>

#include "model/captured/work.hpp"

namespace rehearse::inline cost {
namespace {

using captured::Product;
using captured::Work;

KernelModel::Role role_of(Product::Role role) {
  switch (role) {
    case Product::Role::forward:
      return KernelModel::Role::forward;
    case Product::Role::input_gradient:
      return KernelModel::Role::input_gradient;
    case Product::Role::weight_gradient:
      return KernelModel::Role::weight_gradient;
  }
  return KernelModel::Role::forward;
}

/// As one of the simulator's own operators, of one sample that is the whole batch.
Operator as_product(const Product& product, bool in_16_bits) {
  const double rows = product.rows * product.products;
  return {.kind = OperatorKind::matmul,
          .forward_flops = product.flops(),
          .forward_elements = rows * (product.inner + product.columns) +
                              product.products * product.inner * product.columns,
          .always_fp32 = product.wide && in_16_bits,
          .product = {.rows = product.rows, .columns = product.columns, .inner = product.inner},
          .narrows = product.narrow,
          .float8 = product.narrow ? Float8::tensorwise : Float8::none};
}

/// cuDNN converts what a convolution on tensor cores reads and writes, unless it lies
/// channels_last.
Operator conversion_of(const Operator& convolution, Direction direction) {
  Operator op{.kind = OperatorKind::layout, .plane = convolution.plane};
  const bool forward = direction == Direction::forward;
  op.forward_elements = forward ? 2 * convolution.forward_elements : 0;
  op.backward_elements = forward ? 0 : 2 * convolution.backward_elements;
  op.always_fp32 = convolution.always_fp32;
  return op;
}

bool needs_conversion(const Operator& op) {
  return op.kind == OperatorKind::convolution && !op.channels_last && op.product.rows > 1;
}

}  // namespace

Seconds Roofline::product_time(const captured::Product& product) const {
  const bool in_16_bits = activation_element(precision_) < Bytes(4);
  const KernelModel& kernels = product.wide && in_16_bits ? wide_kernels_ : kernels_;
  if (product.narrow || products_stated_ || !kernels.knows_products())
    return single_time(as_product(product, in_16_bits), 1, Direction::forward);
  return kernels.product({product.rows, product.columns, product.inner, product.products},
                         role_of(product.role));
}

/// Kernels that are not vectorized are bound by the elements that they write. Those that read two
/// types take longer for each: sums and products of bf16 and fp32 on an H200 take 1.25 to 1.45
/// times as long as copies that widen, or as products of one type with a broadcast side
/// (tests/validation/hopper, kineto.tar.xz; platforms/kernels/data/broadcast_steps_hopper.csv).
Seconds Roofline::moving_time(const captured::Work& work, bool backward) const {
  constexpr double kMixed = 1.37;
  Operator like{.kind = work.kind, .by_row = work.by_row};
  like.always_fp32 = work.wide;
  const BytesPerSecond rate = reached_memory(like, backward);
  const Seconds bytes = work.moved / rate;
  const double elements = work.one_by_one * (work.mixed ? kMixed : 1);
  const Seconds alone = elements > 0 ? unvectorized_time(elements) : Seconds(0);
  return work.launches * shares_.launch + work.filled / rate + std::max(bytes, alone);
}

Seconds Roofline::captured_time(const captured::Kernel& kernel, double batch,
                                Direction direction) const {
  if (kernel.backward != (direction == Direction::backward)) return Seconds(0);
  const Work work = captured::work_of(kernel, batch);
  Seconds once{0};
  if (work.plain) {
    once = single_time(*work.plain, 1, direction);
    if (needs_conversion(*work.plain))
      once += single_time(conversion_of(*work.plain, direction), 1, direction);
    if (work.moved > Bytes(0))
      once += moving_time({.moved = work.moved, .wide = work.wide}, kernel.backward);
  } else if (!work.products.empty()) {
    for (const Product& one : work.products) once += one.times * product_time(one);
  } else {
    once = moving_time(work, kernel.backward);
  }
  return kernel.calls * once;
}

/// Forward x and y are converted, and backward two tensors for each gradient.
double Roofline::captured_conversions(const captured::Kernel& kernel) const {
  const Work work = captured::work_of(kernel, 1);
  if (!work.plain || !needs_conversion(*work.plain)) return 0;
  const Direction direction = kernel.backward ? Direction::backward : Direction::forward;
  if (!is_converted(conversion_of(*work.plain, direction))) return 0;
  const double gradients = work.plain->backward_flops / work.plain->forward_flops;
  return 2 * (kernel.backward ? gradients : 1);
}

OperatorBasis Roofline::captured_basis(const Operator& op, double batch,
                                       Direction direction) const {
  const Work work = captured::work_of(*op.kernel, batch);
  if (work.plain) return basis(*work.plain, 1, direction);
  const bool in_16_bits = activation_element(precision_) < Bytes(4);
  if (!work.products.empty()) {
    const Product& one = work.products.front();
    return basis(as_product(one, in_16_bits), 1, Direction::forward);
  }
  Operator like{.kind = work.kind,
                .forward_elements = 1,
                .backward_elements = 1,
                .always_fp32 = work.wide,
                .by_row = work.by_row};
  OperatorBasis found = basis(like, 1, direction);
  if (work.known && found.near.measured != nullptr)
    found.near = kernels_.near_memory(like, element(like), work.moved);
  if (!work.known) found.near = {};
  return found;
}

std::vector<std::pair<std::string, Seconds>> unknown_kernels(const Model& model,
                                                             const Roofline& roofline,
                                                             double batch) {
  std::map<std::string, Seconds> times;
  for (const Unit& unit : model.units)
    for (const Operator& op : unit.operators) {
      if (!op.kernel || captured::work_of(*op.kernel, batch).known) continue;
      times[op.kernel->name] += roofline.time(op, batch, Direction::forward) +
                                roofline.time(op, batch, Direction::backward);
    }
  std::vector<std::pair<std::string, Seconds>> sorted(times.begin(), times.end());
  std::ranges::stable_sort(sorted, std::ranges::greater{},
                           &std::pair<std::string, Seconds>::second);
  return sorted;
}

}  // namespace rehearse::inline cost
