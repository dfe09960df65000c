#pragma once

#include <vector>

#include "explain/wait_graph.hpp"

namespace rehearse::inline explanation {

/// By span: how much later it could end and the run would still end when it does, if only the
/// operations that wait for it moved and all took as long as they did. Nothing on the critical path
/// has any; what shares no links and no cores may take so much longer (a lower bound: what comes
/// to a server's queue keeps its place, and a signal that counted still counts).
std::vector<Seconds> slack_of(const WaitGraph& graph);

}  // namespace rehearse::inline explanation
