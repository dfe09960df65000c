#include "cost/profiled.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "cost/roofline.hpp"
#include "cost/segments.hpp"
#include "profile/compute_error.hpp"

namespace rehearse::inline cost {
namespace {

/// What carries a measured time over from the source's device to the GPU that is asked about.
class Transfer {
 public:
  Transfer(const CostQuestion& question, const Gpu& device)
      : model_(question.model),
        batch_(static_cast<double>(question.batch)),
        products_(question.model.image > 0 ? OperatorKind::convolution : OperatorKind::matmul),
        target_(question.gpu, question.precision, question.efficiency),
        source_(device, question.precision, question.efficiency) {}

  double unit(const Unit& unit, const UnitTimes& times, Direction direction) const {
    return unit.operators.empty() ? as_one_kernel(times, direction)
                                  : ratio(target_.time(unit, batch_, direction),
                                          source_.time(unit, batch_, direction));
  }

  double optimizer(const Optimizer& optimizer) const {
    return ratio(target_.optimizer_step(model_, optimizer),
                 source_.optimizer_step(model_, optimizer));
  }

 private:
  static double ratio(Seconds target, Seconds source) {
    return source > Seconds(0) ? target / source : 1;
  }

  double as_one_kernel(const UnitTimes& times, Direction direction) const {
    const bool forward = direction == Direction::forward;
    const Flops work = forward ? times.forward_flops : times.backward_flops;
    const Bytes traffic = forward ? times.forward_moved : times.backward_moved;
    const Seconds launch = forward ? times.forward_launch : times.backward_launch;
    const Seconds floor = std::max(target_.launch(), launch);
    return ratio(target_.time(work, products_, traffic, floor),
                 source_.time(work, products_, traffic, floor));
  }

  const Model& model_;
  double batch_;
  OperatorKind products_;
  Roofline target_, source_;
};

/// What carrying costs over adds to their error, by how much they are scaled.
double transfer_error(Seconds scaled, Seconds unscaled) {
  const double distance = std::abs(std::log(scaled / unscaled));
  return kTransferError * std::max(1.0, distance / std::log(kTransferRange));
}

/// The largest difference of the units' sum from the whole step, of all batches.
double worst_sum(const ComputeProfile& profile) {
  double worst = 0;
  for (const BatchPoint& point : profile.points) {
    worst = std::max(worst, std::abs(point.sum_difference()));
  }
  return worst;
}

/// The factor by which a batch lies beyond those measured; 1: between them.
double beyond_batches(const ComputeProfile& profile, std::int64_t batch) {
  const auto [low, high] = std::ranges::minmax(profile.points, {}, &BatchPoint::batch);
  const auto asked = static_cast<double>(batch);
  return std::max(
      {1.0, static_cast<double>(low.batch) / asked, asked / static_cast<double>(high.batch)});
}

/// A rank's share of a pass over the whole pass, by the operators that a record has of the unit.
double share_of_pass(const Unit& unit, Direction pass, const Roofline& roofline, double batch) {
  double share = 1;
  for (const recorded::Operator& one : unit.recorded)
    if (one.ranks > 1)
      share -= (pass == Direction::forward ? one.forward : one.backward) *
               (1 - share_factor(one, pass, roofline, batch));
  return std::max(share, 0.0);
}

int ranks_of(const Model& model) {
  int ranks = 1;
  for (const Unit& unit : model.units)
    for (const recorded::Operator& one : unit.recorded) ranks = std::max(ranks, one.ranks);
  return ranks;
}

std::string measured_assumption(const CostSource& source) {
  const ProfileOrigin& origin = source.profile->origin;
  return fmt::format(
      "compute: unit times, saved bytes and workspace measured on {} with LibTorch {}, {} ({}); "
      "linear in the batch between those measured; the units add up to the whole step within "
      "{:.1f} %",
      origin.device, origin.libtorch, origin.date, source.file, 100 * worst_sum(*source.profile));
}

std::string transfer_assumption(const CostQuestion& question, const CostSource& source) {
  return fmt::format(
      "transfer: each unit's times are multiplied by its roofline on {} over that on {} ({}); what "
      "launches bind stays, and so do launch times, saved bytes and workspace",
      question.gpu.name, source.device->name, source.device->source);
}

}  // namespace

StepCosts profiled_units(const CostQuestion& question, const CostSource& source) {
  const ComputeProfile& profile = *source.profile;
  check(unit_difference(question.model, profile).empty(), "a profile of other units");
  std::optional<Transfer> transfer;
  if (source.device) transfer.emplace(question, *source.device);

  const BatchCosts measured = profile.at(question.batch);
  const Roofline own(question.gpu, question.precision, question.efficiency);
  const int ranks = ranks_of(question.model);
  StepCosts costs;
  Seconds scaled, shared, whole;
  const double beyond = beyond_batches(profile, question.batch);
  for (std::size_t i = 0; i < measured.units.size(); ++i) {
    const Unit& unit = question.model.units[i];
    const UnitTimes& times = measured.units[i];
    const auto batch = static_cast<double>(question.batch);
    const auto scale = [&](Direction direction) {
      const double share = ranks > 1 ? share_of_pass(unit, direction, own, batch) : 1.0;
      const Seconds time = direction == Direction::forward ? times.forward : times.backward;
      whole += time;
      shared += share * time;
      return share * (transfer ? transfer->unit(unit, times, direction) : 1.0);
    };
    costs.units.push_back({.forward = times.forward * scale(Direction::forward),
                           .backward = times.backward * scale(Direction::backward),
                           .forward_spread = times.forward_spread,
                           .backward_spread = times.backward_spread,
                           .forward_launch = times.forward_launch,
                           .backward_launch = times.backward_launch,
                           .activation = times.saved,
                           .workspace = times.workspace});
    UnitParts parts(i);
    parts.add(CostFamily::whole_units, costs.units.back().forward, true, beyond);
    parts.add(CostFamily::whole_units, costs.units.back().backward, false, beyond);
    parts.append_to(costs.parts);
    scaled += costs.units.back().forward + costs.units.back().backward;
  }
  costs.uncertainty = compute_error(profile, question.batch);
  costs.host_computes = profile.origin.cuda == "none";
  costs.provenance = source.device ? Provenance::transferred : Provenance::measured;
  costs.grounds.push_back({.family = CostFamily::whole_units,
                           .ground = source.device ? CostGround::transferred : CostGround::measured,
                           .from = fmt::format("{}, {}", profile.origin.device, source.file)});
  costs.assumptions.push_back(measured_assumption(source));
  if (!measured.outside.empty()) {
    costs.outside.push_back(fmt::format("compute: {} ({})", measured.outside, source.file));
  }
  if (ranks > 1) {
    costs.outside.push_back(
        fmt::format("compute: what one of {} tensor ranks runs of it, {:.0f} % of the recorded "
                    "time, by ratio of shapes ({})",
                    ranks, 100 * (shared / whole), source.file));
    costs.uncertainty = std::hypot(costs.uncertainty, transfer_error(shared, whole));
  }
  if (source.device) {
    const std::string from = fmt::format("transferred from {}", profile.origin.device);
    costs.origin = fmt::format("{} ({})", from, source.file);
    costs.outside.push_back(fmt::format("compute: {}", costs.origin));
    costs.uncertainty = std::hypot(costs.uncertainty, transfer_error(scaled, shared));
    costs.assumptions.push_back(transfer_assumption(question, source));
  } else {
    costs.origin = fmt::format("measured ({})", source.file);
  }
  return costs;
}

std::optional<OptimizerCost> profiled_optimizer(const CostQuestion& question,
                                                const CostSource& source) {
  const Optimizer& asked = question.optimizer;
  if (asked.fused || !has_plain_formats(asked) ||
      parameter_element(asked.of) != parameter_element(source.profile->precision)) {
    return std::nullopt;
  }
  const std::string kind = to_string(question.optimizer.kind);
  std::int64_t all = 0;
  for (const ProfiledUnit& unit : source.profile->units) all += unit.parameters();
  const double part =
      all > 0 ? static_cast<double>(question.model.parameters()) / static_cast<double>(all) : 1.0;
  for (const OptimizerTime& measured : source.profile->optimizers) {
    if (measured.kind != kind) continue;
    const double error = source.profile->origin.cuda == "none" ? kCpuDrift : kGpuDrift;
    if (!source.device) {
      return OptimizerCost{part * measured.time, error,
                           fmt::format("optimizer: {} measured ({})", kind, source.file)};
    }
    const double ratio = Transfer(question, *source.device).optimizer(question.optimizer);
    return OptimizerCost{
        part * measured.time * ratio,
        std::hypot(error, transfer_error(measured.time * ratio, measured.time)),
        fmt::format("optimizer: {} transferred from {} ({}) by what it moves through memory", kind,
                    source.profile->origin.device, source.file)};
  }
  return std::nullopt;
}

std::string unit_difference(const Model& model, const ComputeProfile& profile) {
  const std::size_t common = std::min(model.units.size(), profile.units.size());
  for (std::size_t i = 0; i < common; ++i) {
    const Unit& unit = model.units[i];
    const ProfiledUnit& measured = profile.units[i];
    if (unit.name != measured.name) {
      return fmt::format("unit \"{}\" stands where the model has \"{}\"", measured.name, unit.name);
    }
    const bool is_share = !unit.shares.empty() && !unit.recorded.empty();
    if (!is_share && unit.parameters() != measured.parameters()) {
      return fmt::format("unit \"{}\" has {} parameters; the model's has {}", unit.name,
                         measured.parameters(), unit.parameters());
    }
  }
  if (model.units.size() > common) {
    return fmt::format("unit \"{}\" of the model is missing", model.units[common].name);
  }
  if (profile.units.size() > common) {
    return fmt::format("unit \"{}\" is none of the model's", profile.units[common].name);
  }
  return "";
}

}  // namespace rehearse::inline cost
