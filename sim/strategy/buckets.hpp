#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/quantity.hpp"
#include "model/model.hpp"

namespace rehearse::inline strategy {

/// DDP's buckets as c10d's compute_bucket_assignment_by_size makes them after the first iteration:
/// tensors in order of readiness fill a bucket until it holds its cap (the first `first_cap`, then
/// `cap`) or more.
struct Bucket {
  Bytes size;              ///< of the gradients, uncompressed
  std::size_t first_unit;  ///< the earliest unit (in forward order) with a gradient in it: ready
                           ///< when that unit's backward ends
  bool experts = false;    ///< of experts' gradients
  bool wakes = true;       ///< the first that a cycle finds ready (Horovod::cycle_time)
};
std::vector<Bucket> assign_buckets(const Model& model, Bytes element, Bytes first_cap, Bytes cap);
/// Of units [first, end) alone; `apart`: experts' gradients fill buckets of their own.
std::vector<Bucket> assign_buckets(const Model& model, std::size_t first, std::size_t end,
                                   Bytes element, Bytes first_cap, Bytes cap, bool apart = false);
/// The sizes of those that it makes before it knows in which order gradients become ready: tensors
/// in order of registration, the buckets last to first. Of experts' tensors, of the others, or of
/// all (nothing).
std::vector<Bytes> registration_buckets(const Model& model, Bytes element, Bytes first_cap,
                                        Bytes cap, std::optional<bool> experts = {});

}  // namespace rehearse::inline strategy
