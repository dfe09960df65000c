#pragma once

#include <fmt/format.h>

#include <string>

#include "launch/rank_environment.hpp"
#include "server/peer_error.hpp"

namespace rehearse::inline calibrate {

/// Runs collective work. What LibTorch throws where a peer is gone or late becomes a PeerError.
template <class Work>
auto with_peers(const RankEnvironment& self, Work&& work) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    const std::string first_line = text.substr(0, text.find('\n'));
    for (const char* library : {"gloo", "Gloo", "NCCL", "Connection", "Socket", "Timed out"}) {
      if (text.find(library) == std::string::npos) continue;
      throw PeerError(fmt::format("error: rank {} of {} lost the others: {}", self.rank,
                                  self.world_size, first_line));
    }
    throw;
  }
}

}  // namespace rehearse::inline calibrate
