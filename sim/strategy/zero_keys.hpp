#pragma once

#include <cstdint>

#include "config/key_list.hpp"
#include "strategy/read_kinds.hpp"

namespace rehearse::inline strategy {

/// Keys of `strategy.zero`, beside which those of `ddp` or `fsdp` may stand.
struct ZeroKeys : KeyList {
  KeyOf<std::int64_t> stage =
      add("stage", form::integer(1, 3), "required",
          "1 takes the keys of `strategy.ddp`, of deepspeed its own; 2 and 3 are DeepSpeed's.");
  KeyOf<std::int64_t> stage3_prefetch_bucket_size = elements(
      "stage3_prefetch_bucket_size", "50000000", "Parameters gathered ahead, in the order of use.");
  KeyOf<std::int64_t> stage3_max_live_parameters = elements(
      "stage3_max_live_parameters", "1000000000", "With so many there nothing is gathered ahead.");
  KeyOf<std::int64_t> stage3_max_reuse_distance = elements(
      "stage3_max_reuse_distance", "1000000000", "Parameters that are used again so soon stay.");
  KeyOf<std::int64_t> stage3_param_persistence_threshold = elements(
      "stage3_param_persistence_threshold", "100000", "Parameters up to that size stay whole.");
  KeyOf<std::int64_t> reduce_bucket_size = elements(
      "reduce_bucket_size", "500000000", "Of deepspeed: gradients that are reduced at once.");
  KeyOf<std::int64_t> sub_group_size =
      add("sub_group_size", form::integer(1, kMostParameters).in("elements"), "1000000000",
          "Of stage 3: parameters of a rank that are stepped together.");
  KeyOf<bool> overlap_comm =
      add<bool>("overlap_comm", "(of stage 3 true, else false)",
                "Of deepspeed: computation runs beside gathers and reductions.");
  KeyOf<bool> contiguous_gradients =
      add<bool>("contiguous_gradients", "true",
                "Of stages 1 and 2: gradients are copied into a bucket as they are made.");
  KeyOf<bool> communication_data_type = add(
      "communication_data_type", form::choice(kCommunicated), "as_stored",
      "Of deepspeed's stages 1 and 2: gradients are reduced as they are, or as copies in fp32.");
  KeyOf<Seconds> module_hook =
      add<Seconds>("module_hook", "(19 operators of the host)",
                   "Of stage 3: host time of the hooks of a module with parameters in a pass.");

  /// `usual` is the stage's; the framework notes that it was taken.
  bool read_overlap_comm(Map& map, bool usual, Framework& framework) const {
    if (!map.has(overlap_comm.name)) framework.note("strategy.zero." + overlap_comm.name);
    return overlap_comm.in(map, usual);
  }

 private:
  static constexpr Choices<bool> kCommunicated = {{"as_stored", false}, {"fp32", true}};

  KeyOf<std::int64_t> elements(const char* name, const char* fallback, const char* meaning) {
    return add(name, form::integer(0, kMostParameters).in("elements"), fallback, meaning);
  }
};

inline const ZeroKeys& of_zero() {
  static const ZeroKeys kKeys;
  return kKeys;
}

}  // namespace rehearse::inline strategy
