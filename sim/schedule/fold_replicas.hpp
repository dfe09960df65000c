#pragma once

#include <optional>
#include <string>

#include "schedule/schedule.hpp"

namespace rehearse::inline schedule {

/// The part of a whole schedule that a folded one has before its ranks are chosen.
Schedule without_ranks(const Schedule& schedule);

/// fold() of a layout, along its data parallelism.
std::optional<Folded> fold_replicas(const Schedule& schedule, const Cluster& cluster,
                                    std::string& why_not);

}  // namespace rehearse::inline schedule
