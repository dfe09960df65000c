#pragma once

#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "profile/collective_kind.hpp"

namespace rehearse::inline profile {

/// One measured collective; `size` as nccl-tests counts it.
struct CommPoint {
  CollectiveKind kind = CollectiveKind::all_reduce;
  int ranks = 2;
  int nodes = 1;
  Bytes size;
  Seconds time;
};

/// Contents of one file of measurements.
struct CommPoints {
  std::string file;
  std::string hardware;  ///< as the file names it; empty if it does not
  /// Where the numbers were published, or what measured them; empty if unknown.
  std::string source;
  std::vector<CommPoint> points;
  std::vector<std::string> notes;     ///< what was concluded from more than one word
  std::vector<std::string> left_out;  ///< damaged lines, each with what is wrong with it
};

}  // namespace rehearse::inline profile
