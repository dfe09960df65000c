#include "cost/whole_step.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "cost/peak.hpp"
#include "profile/compute_error.hpp"

namespace rehearse::inline cost {

Seconds step_time(const StepCosts& costs, std::int64_t micro_batches,
                  const std::vector<bool>& checkpointed) {
  Seconds micro_batch;
  for (std::size_t i = 0; i < costs.units.size(); ++i) {
    const UnitCost& unit = costs.units[i];
    micro_batch += unit.forward + unit.backward;
    if (!checkpointed.empty() && checkpointed[i]) micro_batch += unit.forward;
  }
  return static_cast<double>(micro_batches) * micro_batch + costs.optimizer;
}

namespace {

/// Winograd's F(4x4, 3x3) takes 36 multiplications for 16 outputs instead of 144 (Lavin, Gray,
/// "Fast algorithms for convolutional neural networks", CVPR 2016): the most that cuDNN saves.
constexpr double kWinogradSaving = 4;

}  // namespace

std::optional<AskedOfPeak> asked_of_peak(const WholeStep& measured, const Model& model,
                                         const Gpu& gpu, Precision precision,
                                         const std::vector<bool>& checkpointed) {
  double flops = model.flops_per_sample(), least = flops;
  if (flops == 0) return std::nullopt;
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    const bool twice = i < checkpointed.size() && checkpointed[i];
    for (const Operator& op : model.units[i].operators) {
      const double recomputed = twice ? op.forward_flops : 0;
      const double all = op.forward_flops + op.backward_flops + recomputed;
      const bool saves = op.kind == OperatorKind::convolution && precision == Precision::fp32;
      flops += recomputed;
      least += recomputed - (saves ? all * (1 - 1 / kWinogradSaving) : 0);
    }
  }
  const double rate = measured.samples_per_s / static_cast<double>(measured.gpus);
  return AskedOfPeak{FlopsPerSecond(rate * flops), FlopsPerSecond(rate * least),
                     peak_for(model, gpu, precision)};
}

namespace {

/// What a step's launches take the host.
Seconds launch_time(const StepCosts& costs, std::int64_t micro_batches,
                    const std::vector<bool>& checkpointed) {
  Seconds micro_batch;
  for (std::size_t i = 0; i < costs.units.size(); ++i) {
    const UnitCost& unit = costs.units[i];
    const bool twice = !checkpointed.empty() && checkpointed[i];
    micro_batch += (twice ? 2.0 : 1.0) * unit.forward_launch + unit.backward_launch;
  }
  return static_cast<double>(micro_batches) * micro_batch + costs.optimizer_launch;
}

/// A step takes no less than its launches, so that a measured one says what the host takes at most.
void bound_launches(StepCosts& costs, const StepCosts& at_measured, const WholeStep& measured,
                    const std::vector<bool>& checkpointed) {
  const Seconds launched = launch_time(at_measured, measured.micro_batches, checkpointed);
  const double samples = static_cast<double>(measured.batch * measured.micro_batches);
  const double most = Seconds(samples / measured.samples_per_s) / launched;
  if (launched <= Seconds(0) || most >= 1) return;
  for (UnitCost& unit : costs.units) {
    unit.forward_launch = most * unit.forward_launch;
    unit.backward_launch = most * unit.backward_launch;
    unit.awaited_launch = most * unit.awaited_launch;
  }
  costs.host_operator = most * costs.host_operator;
  costs.optimizer_launch = most * costs.optimizer_launch;
}

}  // namespace

StepCosts scaled_to(StepCosts costs, const StepCosts& at_measured, const WholeStep& measured,
                    const std::vector<bool>& checkpointed) {
  check(measured.gpus == 1, "the rate of one GPU has to be solved for first");
  const Seconds simulated = step_time(at_measured, measured.micro_batches, checkpointed);
  check(simulated > Seconds(0) && measured.samples_per_s > 0, "a measured step takes time");
  const double samples = static_cast<double>(measured.batch * measured.micro_batches);
  const double factor = Seconds(samples / measured.samples_per_s) / simulated;
  // Another batch is still the roofline's guess.
  if (step_time(costs, 1) == step_time(at_measured, 1)) costs.uncertainty = kWholeStepError;
  for (UnitCost& unit : costs.units) {
    unit.forward = unit.forward * factor;
    unit.backward = unit.backward * factor;
  }
  costs.optimizer = costs.optimizer * factor;
  bound_launches(costs, at_measured, measured, checkpointed);
  costs.provenance = Provenance::measured;
  costs.origin = "measured (whole step)";
  for (FamilyGround& ground : costs.grounds) ground.from += ", scaled to a measured whole step";
  costs.assumptions.push_back(fmt::format(
      "compute: all times, the optimizer's too, times {:.4g}, so that one GPU alone trains the "
      "measured {:.6g} samples/s (batch {}, {} to a step); the shares of the units stay",
      factor, measured.samples_per_s, measured.batch, measured.micro_batches));
  return costs;
}

}  // namespace rehearse::inline cost
