// c10d's compute_bucket_assignment_by_size (torch/csrc/distributed/c10d/reducer.cpp): a bucket is
// closed once it holds its limit or more, so that one large gradient makes one large bucket.
#include <algorithm>

#include "strategy/strategy.hpp"

namespace rehearse {
namespace {

Bytes gradient_bytes(const Unit& unit, std::size_t tensor, Bytes element) {
  if (unit.trait(tensor).storage == StoredAs::fp32) element = Bytes(4);
  return static_cast<double>(unit.tensors[tensor]) * element;
}

}  // namespace

std::vector<Bucket> assign_buckets(const Model& model, Bytes element, Bytes first_cap, Bytes cap) {
  return assign_buckets(model, 0, model.units.size(), element, first_cap, cap);
}

std::vector<Bucket> assign_buckets(const Model& model, std::size_t first, std::size_t end,
                                   Bytes element, Bytes first_cap, Bytes cap) {
  std::vector<Bucket> buckets;
  Bytes filled;
  std::size_t earliest = 0;
  const auto close = [&] {
    buckets.push_back({filled, earliest});
    filled = Bytes(0);
  };
  for (std::size_t unit = end; unit-- > first;) {
    const Unit& one = model.units[unit];
    for (std::size_t tensor = one.tensors.size(); tensor-- > 0;) {
      if (!one.trait(tensor).trained) continue;
      filled += gradient_bytes(one, tensor, element);
      earliest = unit;
      if (filled >= (buckets.empty() ? first_cap : cap)) close();
    }
  }
  if (filled.value() > 0) close();
  return buckets;
}

std::vector<Bytes> registration_buckets(const Model& model, Bytes element, Bytes first_cap,
                                        Bytes cap) {
  std::vector<Bytes> buckets(1);
  for (const Unit& unit : model.units) {
    for (std::size_t tensor = 0; tensor < unit.tensors.size(); ++tensor) {
      if (!unit.trait(tensor).trained) continue;
      if (buckets.back() >= (buckets.size() == 1 ? first_cap : cap)) buckets.emplace_back();
      buckets.back() += gradient_bytes(unit, tensor, element);
    }
  }
  std::ranges::reverse(buckets);
  return buckets;
}

}  // namespace rehearse
