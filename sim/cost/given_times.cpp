#include "cost/given_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cost/kernel_shares.hpp"
#include "cost/peak.hpp"
#include "profile/compute_error.hpp"

namespace rehearse::inline cost {
namespace {

/// What one GPU reaches under one precision.
struct Rates {
  FlopsPerSecond products;
  BytesPerSecond memory;
};

Rates rates_of(const Gpu& gpu, Precision precision, const AnalyticEfficiency& efficiency) {
  const ReachedShares shares = reached_shares(gpu, efficiency);
  const bool tensor_cores = multiplies_on_tensor_cores(gpu, precision);
  return {gpu.matrix_peak(precision) * (tensor_cores ? shares.matrix : shares.matrix_fp32),
          gpu.memory_bandwidth * shares.memory};
}

/// By how much times change with GPU and precision.
struct Ratio {
  double value = 1, error = 0;
};

Ratio ratio_of(const GivenAt& measured, const GivenFor& wanted) {
  if (measured.gpu.name == wanted.gpu.name && measured.precision == wanted.precision) return {};
  const Rates from = rates_of(measured.gpu, measured.precision, wanted.efficiency);
  const Rates to = rates_of(wanted.gpu, wanted.precision, wanted.efficiency);
  const double products = from.products / to.products;
  const double traffic = (from.memory / to.memory) * (activation_element(wanted.precision) /
                                                      activation_element(measured.precision));
  return {std::sqrt(products * traffic),
          std::hypot(kTransferError, std::abs(std::log(products / traffic)) / 2)};
}

/// A given time at another batch; `weights` is what their traffic takes at least.
Seconds at_batch(Seconds given, double batches, Seconds weights) {
  return std::max(given * batches, std::min(given, weights));
}

std::string setting(const std::string& gpu, Precision precision, std::int64_t batch) {
  return fmt::format("batch {} in {} on {}", batch, to_string(precision), gpu);
}

}  // namespace

double activation_ratio(const GivenAt& measured, Precision precision, std::int64_t batch) {
  return static_cast<double>(batch) / static_cast<double>(measured.batch) *
         (activation_element(precision) / activation_element(measured.precision));
}

StepCosts scaled_given(StepCosts costs, const GivenAt& measured, const GivenFor& wanted) {
  const Ratio ratio = ratio_of(measured, wanted);
  if (measured.batch == wanted.batch && ratio.error == 0) return costs;
  const double batches = static_cast<double>(wanted.batch) / static_cast<double>(measured.batch);
  const Rates from = rates_of(measured.gpu, measured.precision, wanted.efficiency);
  for (std::size_t i = 0; i < costs.units.size(); ++i) {
    const double parameters = static_cast<double>(wanted.model.units[i].parameters());
    const Seconds read = parameters * parameter_element(measured.precision) / from.memory;
    UnitCost& unit = costs.units[i];
    unit.forward = at_batch(unit.forward, batches, read) * ratio.value;
    unit.backward = at_batch(unit.backward, batches, 2 * read) * ratio.value;
  }
  if (wanted.model.optimizer_time && ratio.error > 0) {
    const Rates to = rates_of(wanted.gpu, wanted.precision, wanted.efficiency);
    costs.optimizer = costs.optimizer * (from.memory / to.memory);
  }
  costs.uncertainty = std::hypot(costs.uncertainty, ratio.error,
                                 kUntestedExtrapolation * std::abs(std::log2(batches)));
  costs.origin = "given, scaled";
  for (CostPart& part : costs.parts) {
    if (part.family != CostFamily::whole_units) continue;
    part.farthest = std::max(batches, 1 / batches);
    if (part.farthest > 1) part.within = Seconds(0);
  }
  const std::string from_text = setting(measured.gpu.name, measured.precision, measured.batch);
  const std::string to_text = setting(wanted.gpu.name, wanted.precision, wanted.batch);
  costs.outside.push_back(fmt::format("compute: times of {}, scaled to {}", from_text, to_text));
  costs.assumptions.push_back(fmt::format(
      "compute: times given for {}, scaled to {}: in proportion to the batch, no less than the "
      "weights' traffic; by {:.4g} for GPU and precision, the mean of products' and traffic's",
      from_text, to_text, ratio.value));
  return costs;
}

}  // namespace rehearse::inline cost
