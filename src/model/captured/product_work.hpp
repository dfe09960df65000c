#pragma once

#include <cstddef>

#include "model/captured/work.hpp"

namespace rehearse::captured {

/// 1 of a dimension that is not there.
inline double side(const Tensor& tensor, std::size_t place, double batch) {
  return place < tensor.shape.size() ? tensor.shape[place].at(batch) : 1;
}

/// mm, addmm, bmm, baddbmm.
Work products(const Kernel& kernel, double batch);
/// narrow_mm, _scaled_mm: in 8 or 4 bits.
Work narrow_product(const Kernel& kernel, double batch);
/// torch._grouped_mm: rows sorted by expert, a weight for each; of a weight's gradient the rows are
/// the inner dimension. Rows are shared evenly.
Work grouped(const Kernel& kernel, double batch);

}  // namespace rehearse::captured
