#pragma once

#include <optional>
#include <string>
#include <vector>

#include "foreign/traces/kineto.hpp"
#include "profile/compute_profile.hpp"

namespace rehearse::inline foreign {

/// Facts that a trace tells beside its costs.
struct TracedSetting {
  std::int64_t batch = 1;     ///< samples of a micro-batch
  std::int64_t sequence = 0;  ///< tokens of one; 0: it is not said
  Precision precision = Precision::bf16;
  std::string gpu;      ///< a name of `list gpus`; empty: the device's own name
  std::string command;  ///< that imported it
};

/// NCCL's kernels, or Gloo's calls, of one kind.
struct TracedCollective {
  std::string what, dtype;
  double elements = 0;
  int ranks = 0;
  double count = 0;  ///< in a step
  double least = 0;  ///< seconds in a step: of each, the shortest over ranks
  double first = 0;  ///< seconds in a step, of the first rank, waiting included
};

struct TracedProfile {
  ComputeProfile profile;
  double step = 0;     ///< seconds of a traced step: of the half around the median, the mean
  double busy = 0;     ///< of which the GPU's kernels ran, NCCL's apart
  double exposed = 0;  ///< of which a collective ran and no other kernel
  std::size_t steps = 0;
  int ranks = 1;  ///< of the run, where the trace tells
  std::string optimizer = "sgd";
  std::string structure;  ///< "4 units of 57 operators"
  std::vector<TracedCollective> collectives;
  std::vector<std::string> notes;  ///< what the trace does not tell
};

/// Units are what repeats in the forward pass (a network's blocks); a unit's time is what passes
/// until the next one begins, gaps of the host included, and exposed collectives left out.
/// Operators of the backward pass go with those of the forward pass whose sequence number they
/// have. Traces are of the ranks of one run. InputError where no step can be told.
TracedProfile profile_of(const std::vector<KinetoTrace>& ranks, const TracedSetting& setting);

/// Adds what another profile of the same network has of other batches. InputError where its units
/// are others.
void join(ComputeProfile& profile, const ComputeProfile& other);

/// Our name of what CUDA calls a GPU; empty where it is not known.
std::string gpu_of(const std::string& device);

/// The scenario of the traced step, beside a file of its profile.
std::string traced_scenario(const TracedProfile& traced, const TracedSetting& setting,
                            const std::string& profile_file);

}  // namespace rehearse::inline foreign
