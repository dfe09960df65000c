#pragma once

#include <ATen/record_function.h>

#include "base/quantity.hpp"

namespace rehearse::inline calibrate {

/// Totals of a run of operators.
struct OperatorTotals {
  Flops flops;  ///< of products: product_flops()
  Bytes moved;  ///< moved_bytes(); of an operator that calls others, whichever is more
};

/// Adds up what LibTorch's operators do, on all threads, for as long as it lives. One at a time;
/// made and destroyed while no operator runs. It makes every operator slower.
class OperatorCounter {
 public:
  OperatorCounter();
  ~OperatorCounter();
  OperatorCounter(const OperatorCounter&) = delete;
  OperatorCounter& operator=(const OperatorCounter&) = delete;

  /// Totals of what has ended since the last call. No operator may be running.
  OperatorTotals take();

 private:
  at::CallbackHandle handle_;
};

}  // namespace rehearse::inline calibrate
