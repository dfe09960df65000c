#pragma once

#include <cstdint>
#include <string>

namespace rehearse::recorded {

/// How tensor ranks share an operator (Shoeybi et al. 2019, arXiv:1909.08053): each runs all of it,
/// has a part of its columns or of its rows (of its weight), or its part of what stands between the
/// two.
enum class Split : std::uint8_t { whole, columns, rows, between };

/// A call of PyTorch within a unit's forward, as a run's record has it.
struct Operator {
  std::string name;  ///< PyTorch's: "linear", "gelu"
  /// Of a product with a weight: rows of one sample, features in and out; 0: it is none.
  double rows = 0, inner = 0, columns = 0;
  std::int64_t heads = 0, kv_heads = 0;  ///< of attention
  bool bias = false;                     ///< of a product
  bool sum = false;                      ///< of two activations of one shape, as of a residual
  double forward = 0, backward = 0;      ///< its shares of the unit's times
  Split split = Split::whole;
  int ranks = 1;  ///< that share it

  bool is_product() const { return columns > 0; }
  bool operator==(const Operator&) const = default;
};

}  // namespace rehearse::recorded
