#include "cluster/gloo_options.hpp"

#include "cluster/cluster_keys.hpp"
#include "config/fields.hpp"

namespace rehearse::inline cluster {
namespace {

Fields<GlooOptions> gloo_fields() {
  using G = GlooOptions;
  return {field("rate", &G::rate, "busbw of two large all_reduces at a time, by the CPU.",
                "Li et al. 2020"),
          field("alone", &G::alone, "The same of one at a time.", "Li et al. 2020"),
          field("per_step", &G::per_step, "Time of each step of a ring.", "Li et al. 2020")};
}

}  // namespace

std::vector<Key> gloo_keys() { return keys_of(gloo_fields()); }

GlooOptions read_gloo_options(const Value& value) { return read_fields(value, gloo_fields()); }

}  // namespace rehearse::inline cluster
