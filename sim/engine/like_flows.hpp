#pragma once

#include <vector>

#include "engine/plans.hpp"

namespace rehearse::inline engine {

/// Lets few flows stand for many that are alike, which changes no time: of ports that are used
/// alike by flows that begin together, one is played.
///
/// A port's two directions and the flows over them are sorted into classes until every direction of
/// a class has as many flows of every class as the others (an equitable partition, by colour
/// refinement). Flows of a class belong to one plan and so begin together, and the max-min fair
/// rates of a class are equal: filling up all rates alike, links of a class saturate together. So a
/// class of directions, each with m flows of a class to as many directions, is played as one
/// direction with m flows.
///
/// All flows there are must be those of `plans`. Flows that wait for others, and what shares a port
/// with them, stay. Ports are numbers into `ports`, of which some are used no more afterwards.
void merge_like_flows(const std::vector<PlayablePlan*>& plans, const std::vector<Port>& ports,
                      const Cluster& cluster);

}  // namespace rehearse::inline engine
