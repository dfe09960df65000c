#pragma once

#include <optional>
#include <vector>

#include "model/captured/captured.hpp"

namespace rehearse::captured {

/// A matrix product of a whole batch, `products` times in one kernel.
struct Product {
  double rows = 0, columns = 0, inner = 0, products = 1;
  enum class Role : std::uint8_t { forward, input_gradient, weight_gradient } role = Role::forward;
  bool wide = false;    ///< of fp32 operands
  bool narrow = false;  ///< of 8 or 4 bits
  double times = 1;     ///< kernels like it, one after the other
  double flops() const { return 2 * rows * columns * inner * products * times; }
};

/// Work of one call of a kernel at one batch: products, or an operator of the simulator's own
/// kinds, whose numbers are of the whole batch.
struct Work {
  OperatorKind kind = OperatorKind::elementwise;
  std::vector<Product> products{};
  std::optional<Operator> plain{};
  /// Bytes that other kernels move, and elements that they write one by one (broadcast or strided
  /// operands, conversions of 16 bits to 32). Of a convolution: what its bias moves.
  Bytes moved{0};
  double one_by_one = 0;
  Bytes filled{0};       ///< with zeros, by a kernel in front of it
  bool mixed = false;    ///< of operands of two types, each converted on its own
  bool wide = false;     ///< their elements are fp32
  bool by_row = false;   ///< they reduce rows
  bool known = true;     ///< else nothing says how fast such a kernel is: the bandwidth bounds it
  double flops = 0;      ///< of products, a multiply-add counting 2
  double operators = 1;  ///< that the host runs for one call
  double launches = 1;   ///< of kernels, one after the other
};

Work work_of(const Kernel& kernel, double batch);

}  // namespace rehearse::captured
