// Where elements lie in memory: views and what TensorIterator makes of operands.
#include <algorithm>
#include <array>
#include <numeric>

#include "model/tape/autograd.hpp"

namespace rehearse::tape {
namespace {

bool follows(const Shape& shape, const Sizes& strides) {
  for (std::size_t i = 0; i < shape.dimensions(); ++i)
    if (shape.sizes[i] != 1 && shape.strides[i] != strides[i]) return false;
  return true;
}

/// Strides of an operand as `out` reads it: 0 where it is broadcast.
Sizes broadcast_strides(const Shape& operand, const Sizes& out) {
  Sizes strides;
  const std::size_t missing = out.size() - operand.dimensions();
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool repeats = i < missing || (operand.sizes[i - missing] == 1 && out[i] != 1);
    strides.push_back(repeats ? 0 : operand.strides[i - missing]);
  }
  return strides;
}

Sizes broadcast_sizes(std::initializer_list<const Shape*> operands) {
  std::size_t dimensions = 0;
  for (const Shape* operand : operands) dimensions = std::max(dimensions, operand->dimensions());
  Sizes sizes;
  for (std::size_t i = 0; i < dimensions; ++i) sizes.push_back(1);
  for (const Shape* operand : operands) {
    const std::size_t missing = dimensions - operand->dimensions();
    for (std::size_t i = 0; i < operand->dimensions(); ++i) {
      if (operand->sizes[i] == 1) continue;
      std::int64_t& size = sizes[i + missing];
      check(size == 1 || size == operand->sizes[i], "tensors that do not broadcast");
      size = operand->sizes[i];
    }
  }
  return sizes;
}

/// TensorIteratorBase::reorder_dimensions: 1 where `inner` belongs outside of `outer`.
int swaps(const std::array<Sizes, 4>& strides, std::size_t operands, const Sizes& sizes,
          std::size_t inner, std::size_t outer) {
  for (std::size_t i = 0; i < operands; ++i) {
    const std::int64_t a = strides[i][inner], b = strides[i][outer];
    if (a == 0 || b == 0) continue;
    if (a != b) return a < b ? -1 : 1;
    if (sizes[inner] > sizes[outer]) return 1;
  }
  return 0;
}

}  // namespace

bool Shape::contiguous() const { return follows(*this, contiguous_strides(sizes)); }

bool Shape::channels_last() const {
  return dimensions() == 4 && follows(*this, tape::channels_last(sizes).strides);
}

bool Shape::dense() const {
  // Each dimension begins where those inside it end.
  std::int64_t inside = 1;
  for (std::size_t found = 0; found < dimensions();) {
    const std::size_t before = found;
    for (std::size_t i = 0; i < dimensions(); ++i) {
      if (sizes[i] == 1 || strides[i] != inside) continue;
      inside *= sizes[i];
      ++found;
      break;
    }
    if (found == before) break;
  }
  return inside == elements();
}

Shape channels_last(const Sizes& sizes) {
  if (sizes.size() != 4) return sizes;
  return {sizes, {sizes[1] * sizes[2] * sizes[3], 1, sizes[3] * sizes[1], sizes[1]}};
}

Shape broadcast(std::initializer_list<const Shape*> operands) {
  const Shape& first = **operands.begin();
  const auto like_first = [&](const Shape* other) {
    return other->sizes == first.sizes && other->strides == first.strides;
  };
  if (std::all_of(operands.begin(), operands.end(), like_first) && first.dense())
    return {first.sizes, first.strides};
  const Sizes sizes = broadcast_sizes(operands);
  std::array<Sizes, 4> strides;
  std::size_t count = 0;
  for (const Shape* operand : operands) strides.at(count++) = broadcast_strides(*operand, sizes);
  std::array<std::size_t, 6> order{};  // the innermost first
  for (std::size_t i = 0; i < sizes.size(); ++i) order[i] = sizes.size() - 1 - i;
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    std::size_t outer = i;
    for (std::size_t inner = i; inner-- > 0;) {
      const int way = swaps(strides, count, sizes, order[inner], order[outer]);
      if (way < 0) break;
      if (way == 0) continue;
      std::swap(order[inner], order[outer]);
      outer = inner;
    }
  }
  Shape out = sizes;
  std::int64_t next = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    out.strides[order[i]] = next;
    next *= std::max<std::int64_t>(1, sizes[order[i]]);
  }
  return out;
}

}  // namespace rehearse::tape
