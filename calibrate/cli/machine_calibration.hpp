#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/machine_survey.hpp"
#include "model/model.hpp"

namespace rehearse::inline calibrate {

/// Request for the calibration of a whole machine. Empty lists: those that suit it.
struct MachineRequest {
  SurveyOptions survey;
  std::vector<std::string> models, precisions;
  ModelShape shape;  ///< of every model
  std::vector<std::int64_t> batches = {1, 2, 4, 8, 16};
  std::filesystem::path output;
  double minutes = 0;  ///< 0: three, on GPUs for each model and precision
  bool dry_run = false, quiet = false;
};

/// Measures this machine into a folder: compute profiles, a profile of its collectives, a cluster
/// and a scenario; or prints the plan. What the folder holds already is not measured again.
/// InputError for what cannot be asked, MissingError where a folder cannot be written or a rank
/// dies; Error with the signal's code where it was stopped.
void calibrate_machine(const MachineRequest& request, const Invocation& invocation);

}  // namespace rehearse::inline calibrate
