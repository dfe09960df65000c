#pragma once

#include <filesystem>
#include <string>

#include "cli/commands.hpp"
#include "cli/progress.hpp"
#include "measure/compute_calibration.hpp"

namespace rehearse::inline calibrate {

/// A compute calibration of one model in one precision that ends in a profile.
struct ComputeCommand {
  ComputePlan plan;
  std::string input;  ///< of a user's own module
  std::string loss;   ///< likewise; empty: the default
  std::string precision = "fp32";
  int threads = 0;  ///< 0: LibTorch's own choice
  std::filesystem::path output;
  bool cpu = false;
  bool dry_run = false;
  bool quiet = false;
  /// Repetitions are chosen to fit into it, and any number of them in the profile will do; 0: as
  /// the plan says.
  Seconds budget;
  ProgressSpan span;
};

/// Measures what the profile lacks, or prints the plan, and prints a summary. To be called in a
/// process of its own, or once. InputError where the file is another measurement's or damaged;
/// Error with the signal's code where it was stopped.
void run_compute(ComputeCommand& command, const Invocation& invocation);

}  // namespace rehearse::inline calibrate
