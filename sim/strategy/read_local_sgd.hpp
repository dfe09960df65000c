#pragma once

#include <functional>

#include "strategy/layout/read_layout.hpp"
#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// Whether no other kind stands beside local_sgd: a replica is one rank, but for degrees above 1.
bool is_local_sgd_alone(const Value& strategy);

/// `{local_sgd: {...}}`, or with what keeps the ranks of a replica in step beside it, or a layout.
/// `read_inner` reads the options of a strategy by its name, and `read_mesh` what stands beside
/// degrees.
Strategy read_local_sgd(
    const Value& strategy,
    const std::function<Strategy(const std::string& name, Map& options)>& read_inner,
    const std::function<Strategy(const Map& map)>& read_mesh, const Reading& reading);

}  // namespace rehearse::inline strategy
