#pragma once

#include <optional>

#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

inline constexpr const char* kSetOuter = "set outer_optimizer: {sgd: {}}";

/// `outer_optimizer: {sgd: {...}}` of local_sgd and of ps; nothing where it is missing. InputError
/// where its numbers do not fit together.
std::optional<OuterSgd> read_outer_optimizer(Map& map);
/// `compression` of pseudo-gradients, which only an outer optimizer has; InputError without it, as
/// refuse_without_outer_optimizer().
OuterCompression read_outer_compression(Map& map, const std::optional<OuterSgd>& outer,
                                        const std::string& how = kSetOuter);
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
