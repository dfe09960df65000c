#pragma once

#include <string>
#include <vector>

#include "comm/sweep_result.hpp"

namespace rehearse::inline calibrate {

/// Description of this machine, and of how it is to be measured.
struct MachineSurvey {
  std::string device;  ///< of each rank
  std::string libtorch;
  bool on_gpu = false;
  int ranks = 2;
  int threads = 1;  ///< of each rank's host

  /// "nvidia_h100_80gb_hbm3", "intel_xeon_cpu_2_20ghz_1_thread": for names of files.
  std::string slug() const;
};

/// Options that a person may state; 0: as many ranks as GPUs, or two on the CPU, and each rank's
/// share of the cores.
struct SurveyOptions {
  int nproc = 0;
  int threads = 0;
  bool cpu = false;
};

/// Looks at the machine, in a process of its own: nothing of LibTorch is started in this one.
/// InputError where more ranks are asked for than the machine has GPUs or cores.
MachineSurvey survey_machine(const SurveyOptions& options);

/// Copies between host and the first GPU, likewise in a process of its own; none on CPUs.
std::vector<SweepCopy> survey_copies(const MachineSurvey& machine);

}  // namespace rehearse::inline calibrate
