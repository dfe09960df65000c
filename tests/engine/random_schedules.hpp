#pragma once

#include <cstdint>

#include "cluster/cluster.hpp"
#include "schedule/schedule.hpp"

namespace rehearse {

struct RandomCase {
  Schedule schedule;
  Cluster cluster;
};

/// A random schedule of which no two flows ever share a port and no two arrivals at a queue tie,
/// and which can finish:
///
/// - A rank communicates on one lane only, so never twice at once. Its groups are the world and one
/// of disjoint parts, which
///   share no port either: single ranks of one-GPU nodes, or whole nodes.
/// - Transfers go from and to ranks of one-GPU nodes, and to and from a partner on a CPU node that
/// only one rank talks to.
/// - What a queue serves comes after one jittered computation of its own and after nothing else.
/// - Programs are cut into phases, with one collective, the same in all programs, at the end of
/// each. Edges of distance 0
///   point backwards in the program, and events to later phases; so everything waits for what is
///   earlier by (iteration, phase, place in the program), and nothing can be stuck.
RandomCase random_case(std::uint64_t seed);

}  // namespace rehearse
