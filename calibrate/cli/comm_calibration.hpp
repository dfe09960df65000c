#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "cli/commands.hpp"
#include "cli/progress.hpp"
#include "comm/sweep.hpp"

namespace rehearse::inline calibrate {

/// A sweep of collectives that ends in a profile.
struct CommRequest {
  int nproc = 2;    ///< processes on this node, where no launcher started several
  int threads = 0;  ///< of each; 0: its share of the cores
  SweepOptions sweep;
  std::string name = {};  ///< of the profile; empty: the file's
  std::filesystem::path output = {};
  BytesPerSecond link_rate{0};  ///< of each node's link; 0: not known
  bool cpu = false;
  bool quiet = false;
  std::chrono::milliseconds timeout = std::chrono::minutes(5);  ///< of each wait for another rank
  ProgressSpan span = {};
};

/// Where the samples of the profile `output` are kept: what a stopped sweep goes on from.
std::filesystem::path samples_file(const std::filesystem::path& output);

/// Measures what the samples beside the profile lack, and writes profile (YAML), samples (JSON) and
/// points (CSV). Under a launcher every process calls it, and rank 0 writes. Nothing on the others.
/// InputError where the files are another measurement's or damaged; they stay. Error with the
/// signal's code where it was stopped.
std::optional<SweepResult> calibrate_comm(const CommRequest& request, const Invocation& invocation);

/// Prints what that would measure and about how long it would take.
void print_comm_plan(const CommRequest& request);

}  // namespace rehearse::inline calibrate
