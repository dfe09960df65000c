#pragma once

#include <optional>
#include <string>

#include "schedule/schedule.hpp"

namespace rehearse {

/// fold() of a layout, along its data parallelism.
std::optional<Folded> fold_replicas(const Schedule& schedule, const Cluster& cluster,
                                    std::string& why_not);

}  // namespace rehearse
