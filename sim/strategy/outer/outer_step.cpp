// What the outer steps of a parameter server and of DiLoCo have in common.
#include "strategy/outer/outer_step.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "strategy/choices.hpp"
#include "strategy/named_options.hpp"

namespace rehearse::inline strategy {
namespace {

Fields<OuterSgd> sgd_fields() {
  using S = OuterSgd;
  return {field("learning_rate", &S::learning_rate, form::positive(),
                "Of the outer step; no time depends on it."),
          field("momentum", &S::momentum, form::not_negative(), "Of the outer step."),
          {{{"nesterov", type::flag(), "true", "Nesterov's form of it."}}, [](Map& map, S& sgd) {
             sgd.nesterov = map.bool_or("nesterov", sgd.nesterov && sgd.momentum > 0);
           }}};
}

OuterSgd read_outer_optimizer(const Value& value) {
  Map map = read_named_options(value, {"sgd"}, "an outer optimizer").options;
  const OuterSgd sgd = read_fields(map, sgd_fields());
  if (sgd.momentum >= 1)
    map.at_key("momentum")
        .fail(fmt::format("{:g} of what was before never dies away", sgd.momentum), "less than 1");
  if (sgd.nesterov && sgd.momentum == 0)
    map.at_key("nesterov")
        .fail("Nesterov's step needs a momentum", "set momentum above 0, or nesterov: false");
  map.finish();
  return sgd;
}

}  // namespace

Form<OuterSgd> outer_optimizer_form(const char* meaning) {
  std::vector<Key> below = keys_of(sgd_fields(), ".sgd.");
  below.insert(below.begin(), {".sgd", type::map(), "-", meaning});
  return {type::map(), read_outer_optimizer, {}, below};
}

void refuse_without_outer_optimizer(Map& map, const std::string& key, const std::string& how) {
  if (map.has(key))
    map.at_key(key).fail("it is about the pseudo-gradients of an outer optimizer",
                         how + ", or remove it");
}

Bytes wire_element(OuterCompression compression, Bytes element) {
  switch (compression) {
    case OuterCompression::none:
      return element;
    case OuterCompression::bf16:
      return Bytes(2);
    case OuterCompression::int8:
      return Bytes(1);
    case OuterCompression::int4:
      return Bytes(0.5);
  }
  throw InternalError("internal error: a compression without a size");
}

Bytes moved_to_send(OuterCompression compression, Bytes element) {
  const Bytes difference = 3.0 * element;
  if (compression == OuterCompression::none) return difference;
  return difference + element + wire_element(compression, element);
}

Optimizer as_optimizer(const OuterSgd& outer, Precision precision) {
  return {.kind = outer.momentum > 0 ? OptimizerKind::sgd_momentum : OptimizerKind::sgd,
          .of = precision,
          .master_element = Bytes(0)};
}

}  // namespace rehearse::inline strategy
