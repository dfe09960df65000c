// What the outer steps of a parameter server and of DiLoCo have in common.
#include "strategy/outer/outer_step.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "strategy/choices.hpp"
#include "strategy/named_options.hpp"

namespace rehearse::inline strategy {
namespace {

const Choices<OuterCompression> kCompressions = {{"none", OuterCompression::none},
                                                 {"bf16", OuterCompression::bf16},
                                                 {"int8", OuterCompression::int8},
                                                 {"int4", OuterCompression::int4}};

}  // namespace

std::optional<OuterSgd> read_outer_optimizer(Map& map) {
  const std::optional<Value> value = map.optional("outer_optimizer");
  if (!value) return std::nullopt;
  NamedOptions named = read_named_options(*value, {"sgd"}, "an outer optimizer");
  OuterSgd sgd;
  sgd.learning_rate = named.options.positive_number_or("learning_rate", sgd.learning_rate);
  sgd.momentum = named.options.non_negative_number_or("momentum", sgd.momentum);
  if (sgd.momentum >= 1)
    named.options.at_key("momentum")
        .fail(fmt::format("{:g} of what was before never dies away", sgd.momentum), "less than 1");
  sgd.nesterov = named.options.bool_or("nesterov", sgd.nesterov && sgd.momentum > 0);
  if (sgd.nesterov && sgd.momentum == 0)
    named.options.at_key("nesterov")
        .fail("Nesterov's step needs a momentum", "set momentum above 0, or nesterov: false");
  named.options.finish();
  return sgd;
}

void refuse_without_outer_optimizer(Map& map, const std::string& key, const std::string& how) {
  if (map.has(key))
    map.at_key(key).fail("it is about the pseudo-gradients of an outer optimizer",
                         how + ", or remove it");
}

OuterCompression read_outer_compression(Map& map, const std::optional<OuterSgd>& outer,
                                        const std::string& how) {
  if (outer)
    return value_of(kCompressions, map.choice_or("compression", "none", names_of(kCompressions)));
  refuse_without_outer_optimizer(map, "compression", how);
  return OuterCompression::none;
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
