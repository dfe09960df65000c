#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "explain/wait_graph.hpp"

namespace rehearse::inline explanation {

/// Where one rank's time goes, per step: compute + exposed communication + idle = the step, and
/// host + peer + server = idle. As PyTorch's Holistic Trace Analysis splits a kernel timeline,
/// but what a rank is idle for is followed back through other ranks.
struct RankSplit {
  RankId rank;
  Seconds step, compute;
  Seconds exposed_communication;  ///< in flight while it computes nothing
  Seconds hidden_communication;   ///< in flight while it computes
  Seconds idle;
  Seconds host;    ///< idle for its host: launches, copies, sleep
  Seconds peer;    ///< for what other ranks compute or send
  Seconds server;  ///< for a server's updates, its own and those before them
  /// Parts of `peer`, in a pipeline: for what ranks of each stage compute, and for what others
  /// exchange, by the axis that their groups lie along (pipeline: messages between stages).
  std::map<std::uint32_t, Seconds> for_stage{};
  std::map<MeshAxis, Seconds> for_exchange{};
  /// How much longer its first computation of the last step may take, and the run still ends when
  /// it does (slack_of): what it has in hand before others wait for it.
  Seconds slack;
};

/// Means over iterations [first, last), each rank's own.
std::vector<RankSplit> split_ranks(const WaitGraph& graph, const std::vector<RankId>& ranks,
                                   std::uint32_t first, std::uint32_t last);

}  // namespace rehearse::inline explanation
