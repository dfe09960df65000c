#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>

#include "base/error.hpp"

namespace rehearse::inline model {

/// Sizes of a tensor's dimensions, or their strides: six at the most, in place.
class Sizes {
 public:
  Sizes() = default;
  Sizes(std::int64_t one) : Sizes({one}) {}
  Sizes(std::initializer_list<std::int64_t> sizes) {
    for (const std::int64_t size : sizes) push_back(size);
  }

  std::size_t size() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  std::int64_t& operator[](std::size_t dimension) { return sizes_[checked(dimension)]; }
  std::int64_t operator[](std::size_t dimension) const { return sizes_[checked(dimension)]; }
  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + rank_; }
  std::int64_t back() const { return (*this)[rank_ - 1U]; }

  void push_back(std::int64_t size) {
    check(rank_ < sizes_.size(), "a tensor of more than six dimensions");
    sizes_[rank_++] = size;
  }
  void insert(std::size_t dimension, std::int64_t size) {
    push_back(size);
    std::rotate(sizes_.data() + dimension, sizes_.data() + rank_ - 1, sizes_.data() + rank_);
  }
  void erase(std::size_t dimension) {
    std::rotate(sizes_.data() + dimension, sizes_.data() + dimension + 1, sizes_.data() + rank_);
    --rank_;
  }
  std::int64_t elements() const {
    std::int64_t all = 1;
    for (const std::int64_t size : *this) all *= size;
    return all;
  }
  bool operator==(const Sizes& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  std::size_t checked(std::size_t dimension) const {
    check(dimension < rank_, "a dimension that a tensor does not have");
    return dimension;
  }

  std::array<std::int64_t, 6> sizes_ = {};
  std::uint8_t rank_ = 0;
};

/// Strides of a tensor that has no gaps and is in the order of its dimensions.
inline Sizes contiguous_strides(const Sizes& sizes) {
  Sizes strides = sizes;
  std::int64_t next = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    next *= std::max<std::int64_t>(1, sizes[i]);
  }
  return strides;
}

}  // namespace rehearse::inline model
