#pragma once

#include <optional>
#include <string>

#include "schedule/schedule.hpp"

namespace rehearse::inline schedule {

/// Whether replicas with steps of their own (Schedule::replicas) have several nodes each, or are
/// joined by links that all nodes of one share.
bool has_sites(const Schedule& schedule, const Cluster& cluster);
/// fold() of these: two nodes of two replicas stand for all of them.
std::optional<Folded> fold_sites(const Schedule& schedule, const Cluster& cluster,
                                 std::string& why_not);

// Of fold().

/// Empty, or why one rank cannot stand for another.
std::string why_ranks_differ(const Schedule& schedule);
/// Empty, or what a program exchanges that is no ring and no tree.
std::string why_not_in_rings(const Program& program);
/// Whether an all_reduce may be a tree.
bool may_have_trees(const Program& program);

}  // namespace rehearse::inline schedule
