// c10d's compute_bucket_assignment_by_size (torch/csrc/distributed/c10d/reducer.cpp): a bucket is
// closed once it holds its limit or more, so that one large gradient makes one large bucket.
#include <algorithm>
#include <functional>

#include "strategy/buckets.hpp"

namespace rehearse::inline strategy {
namespace {

Bytes gradient_bytes(const Unit& unit, std::size_t tensor, Bytes element) {
  if (unit.trait(tensor).storage == StoredAs::fp32) element = Bytes(4);
  return static_cast<double>(unit.tensors[tensor]) * element;
}

struct UnitSpan {
  std::size_t first = 0, end = 0;
};
struct Caps {
  Bytes first, others;
};

}  // namespace

std::vector<Bucket> assign_buckets(const Model& model, Bytes element, Bytes first_cap, Bytes cap) {
  return assign_buckets(model, 0, model.units.size(), element, first_cap, cap);
}

namespace {

/// Of tensors that `belongs` says.
template <typename Belongs>
std::vector<Bucket> fill_buckets(const Model& model, const UnitSpan& span, Bytes element,
                                 const Caps& caps, const Belongs& belongs) {
  std::vector<Bucket> buckets;
  Bytes filled;
  std::size_t earliest = 0;
  const auto close = [&] {
    buckets.push_back({filled, earliest});
    filled = Bytes(0);
  };
  for (std::size_t unit = span.end; unit-- > span.first;) {
    const Unit& one = model.units[unit];
    for (std::size_t tensor = one.tensors.size(); tensor-- > 0;) {
      if (!one.trait(tensor).trained || !belongs(one, tensor)) continue;
      filled += gradient_bytes(one, tensor, element);
      earliest = unit;
      if (filled >= (buckets.empty() ? caps.first : caps.others)) close();
    }
  }
  if (filled.value() > 0) close();
  return buckets;
}

}  // namespace

std::vector<Bucket> assign_buckets(const Model& model, std::size_t first, std::size_t end,
                                   Bytes element, Bytes first_cap, Bytes cap, bool apart) {
  const Caps caps{first_cap, cap};
  std::vector<Bucket> buckets = fill_buckets(model, {first, end}, element, caps,
                                             [apart](const Unit& unit, std::size_t tensor) {
                                               return !apart || !unit.is_of_experts(tensor);
                                             });
  if (!apart) return buckets;
  for (Bucket bucket :
       fill_buckets(model, {first, end}, element, caps, std::mem_fn(&Unit::is_of_experts))) {
    bucket.experts = true;
    buckets.push_back(bucket);
  }
  std::ranges::stable_sort(buckets, std::ranges::greater{}, &Bucket::first_unit);
  return buckets;
}

std::vector<Bytes> registration_buckets(const Model& model, Bytes element, Bytes first_cap,
                                        Bytes cap, std::optional<bool> experts) {
  std::vector<Bytes> buckets(1);
  for (const Unit& unit : model.units) {
    for (std::size_t tensor = 0; tensor < unit.tensors.size(); ++tensor) {
      if (!unit.trait(tensor).trained) continue;
      if (experts && unit.is_of_experts(tensor) != *experts) continue;
      if (buckets.back() >= (buckets.size() == 1 ? first_cap : cap)) buckets.emplace_back();
      buckets.back() += gradient_bytes(unit, tensor, element);
    }
  }
  if (buckets.back() == Bytes(0)) buckets.pop_back();
  std::ranges::reverse(buckets);
  return buckets;
}

}  // namespace rehearse::inline strategy
