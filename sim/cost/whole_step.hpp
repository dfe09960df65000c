#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cost/cost.hpp"

namespace rehearse::inline cost {

/// A training step that was timed as a whole: all that many people know of a model. Computed costs
/// are scaled to that of one GPU alone. In a step of several, part is communication and waiting,
/// which no factor on the compute may take over: then one GPU's rate is solved for (measured_job).
struct WholeStep {
  double samples_per_s = 0;        ///< of all `gpus`, in steps that include the optimizer's
  std::int64_t batch = 1;          ///< samples of one micro-batch of one GPU
  std::int64_t micro_batches = 1;  ///< per step: its gradient accumulation
  std::int64_t gpus = 1;           ///< that trained as one job; 0: the cluster's, see settled()
  bool each = false;               ///< `samples_per_s` is that of each GPU, see settled()
};
/// The same as the figure of all, once the cluster's number of GPUs is known.
WholeStep settled(WholeStep measured, std::int64_t cluster_gpus);

/// Time that one GPU alone takes for the step at these costs: every micro-batch forward and
/// backward, then the optimizer. Units that are `checkpointed` (by Model::units; empty: none)
/// compute their forward twice.
Seconds step_time(const StepCosts& costs, std::int64_t micro_batches,
                  const std::vector<bool>& checkpointed = {});

/// Arithmetic rates that a measured rate asks of one GPU, recomputation included. `asked` is as
/// FLOPs are counted. `least` is the least that an algorithm for convolutions makes of them
/// (fp32's; tensor cores multiply directly). `peak` is the most that the GPU could.
struct AskedOfPeak {
  FlopsPerSecond asked, least, peak;
};
/// Nothing of a model whose FLOPs are not known. Above the peak a measurement is not of this model,
/// precision, GPU or number of GPUs.
std::optional<AskedOfPeak> asked_of_peak(const WholeStep& measured, const Model& model,
                                         const Gpu& gpu, Precision precision,
                                         const std::vector<bool>& checkpointed);

/// `costs` with every time multiplied by one factor: the one that makes the step at the costs
/// `at_measured` (those of the same model at `measured.batch`) take as long as was measured. What
/// each unit, and the optimizer, takes of the step stays as it was. Their origin is then
/// "measured (whole step)", and an assumption tells the factor.
StepCosts scaled_to(StepCosts costs, const StepCosts& at_measured, const WholeStep& measured,
                    const std::vector<bool>& checkpointed = {});

}  // namespace rehearse::inline cost
