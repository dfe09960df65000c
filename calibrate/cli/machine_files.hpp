#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cli/machine_survey.hpp"
#include "profile/compute_profile.hpp"

namespace rehearse::inline calibrate {

/// Parts from which a calibrated machine's cluster is made.
struct MachineCluster {
  MachineSurvey machine;
  DeviceRates rates;
  std::optional<SweepResult> comm;  ///< none where there is one rank
  std::vector<SweepCopy> copies;    ///< of a GPU
  std::string source;               ///< when and by which command
};

/// The text of cluster.yaml: this node, with its profiles in compute/ and comm.yaml beside it.
/// Links carry what the largest messages reached, so that they alone are sane where no profile
/// serves.
std::string cluster_file(const MachineCluster& cluster);

/// The text of scenario.yaml: DDP on all of it, with the model's profile's largest batch.
std::string scenario_file(const ComputeProfile& profile);

}  // namespace rehearse::inline calibrate
