#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "foreign/traces/chakra.hpp"
#include "schedule/schedule.hpp"

namespace rehearse::inline foreign {

/// One iteration of a rank's program: operations of a lane are in its order by control, edges are
/// data. Sizes are those of nccl-tests; durations are whole microseconds. InputError for schedules
/// with queues (parameter servers).
std::vector<ChakraNode> chakra_nodes(const Schedule& schedule, std::size_t rank);

/// The groups that pg_name names, as ASTRA-sim's file of communicators has them (JSON).
std::string chakra_groups(const Schedule& schedule);

/// The trace of one rank, and its file.
struct ChakraFile {
  std::string name;
  std::vector<ChakraNode> nodes;
};

/// What traces of the ranks of one run hold, as lines: compute, collectives, messages, and the
/// longest chain of dependencies. InputError where nodes wait for each other in a circle.
std::string chakra_summary(const std::vector<ChakraFile>& files);

}  // namespace rehearse::inline foreign
