#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace rehearse::inline calibrate {

/// How the process of one rank ended.
struct RankEnd {
  bool ended = false;
  bool complete = false;  ///< its work returned or threw: `text` is its result, or its error
  bool lost = false;      ///< its process is gone, with all that could say why
  bool follows = false;   ///< it threw a PeerError
  int status = 0;         ///< as waitpid() gives it
  std::string text = {};
  std::chrono::steady_clock::time_point when = {};

  bool failed() const { return ended && (status != 0 || !complete); }
};

/// The failure that the others follow from. A rank's death comes to its peers as a lost connection,
/// which they may report first: so a death comes before whatever was thrown, that before a
/// PeerError, then the earliest. At least one has failed.
std::size_t first_cause(const std::vector<RankEnd>& ranks);

/// Throws what ended that rank: its own code and text where it threw, otherwise MissingError with
/// its signal. `who` names it, and is added to what it threw where it was not `alone`.
[[noreturn]] void throw_failure(const RankEnd& rank, const std::string& who, bool alone);

}  // namespace rehearse::inline calibrate
