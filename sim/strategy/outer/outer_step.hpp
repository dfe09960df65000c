#pragma once

#include <optional>

#include "config/fields.hpp"
#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

inline constexpr const char* kSetOuter = "set outer_optimizer: {sgd: {}}";

/// `outer_optimizer: {sgd: {...}}` of local_sgd and of ps, where `sgd` has that meaning. InputError
/// where its numbers do not fit together.
Form<OuterSgd> outer_optimizer_form(const char* meaning);
/// `compression` of pseudo-gradients, which only an outer optimizer has.
template <class Options>
Field<Options> outer_compression_field() {
  return field("compression", &Options::compression,
               form::choice<OuterCompression>({{"none", OuterCompression::none},
                                               {"bf16", OuterCompression::bf16},
                                               {"int8", OuterCompression::int8},
                                               {"int4", OuterCompression::int4}}),
               "Pseudo-gradients on their way; none: as parameters are stored.",
               "Douillard et al. 2025")
      .where([](const Options& options) { return options.outer.has_value(); });
}
/// What `key` is about needs an outer optimizer, which is missing: InputError. `how` gives one.
void refuse_without_outer_optimizer(Map& map, const std::string& key,
                                    const std::string& how = kSetOuter);

/// Bytes of an element of a pseudo-gradient on its way.
Bytes wire_element(OuterCompression compression, Bytes element);
/// Bytes that a worker's kernels move for an element of a pseudo-gradient: they read the parameters
/// as they are and as they were, and write how far they are apart. To compress that reads it once
/// more, and writes what travels.
Bytes moved_to_send(OuterCompression compression, Bytes element);
/// The outer optimizer as one of torch.optim on parameters as they are stored: of fp32 master
/// weights the outer step knows nothing.
Optimizer as_optimizer(const OuterSgd& outer, Precision precision);

}  // namespace rehearse::inline strategy
