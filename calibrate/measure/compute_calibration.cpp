#include "measure/compute_calibration.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "measure/batch_samples.hpp"
#include "measure/device_rates.hpp"
#include "measure/precision.hpp"
#include "measure/statistics.hpp"
#include "measure/step_runner.hpp"
#include "models/networks.hpp"

namespace rehearse::inline calibrate {
namespace {

/// Weights and batches are the same in every run.
constexpr std::uint64_t kSeed = 1;

/// Steps per repetition of one batch: one that does not count, one with timed units, one without.
constexpr double kStepsPerRepetition = 3;

Chain prepared_chain(const ComputePlan& plan, const MeasuredDevice& device) {
  torch::manual_seed(kSeed);
  const Chain chain =
      plan.script ? script_chain(*plan.script) : build_chain(plan.model, plan.shape);
  if (plan.script && !plan.batches.empty())
    check_script_batch(chain, *std::ranges::min_element(plan.batches));
  move_to(chain, device.torch_device());
  apply_precision(plan.precision, chain);
  return chain;
}

/// Of two points of one batch, the one with more repetitions stays.
void put_point(ComputeProfile& profile, const BatchPoint& point) {
  for (const BatchPoint& known : profile.points) {
    if (known.batch == point.batch && known.repetitions > point.repetitions) return;
  }
  std::erase_if(profile.points, [&](const BatchPoint& p) { return p.batch == point.batch; });
  profile.points.push_back(point);
  std::sort(profile.points.begin(), profile.points.end(),
            [](const BatchPoint& a, const BatchPoint& b) { return a.batch < b.batch; });
}

void put_optimizer(ComputeProfile& profile, const OptimizerTime& time) {
  std::erase_if(profile.optimizers,
                [&](const OptimizerTime& known) { return known.kind == time.kind; });
  profile.optimizers.push_back(time);
}

/// Counts steps, tells the watch, and says when to stop.
class Steps {
 public:
  Steps(double total, const ComputeWatch& watch) : total_(total), watch_(watch) {}
  /// `weight`: what this step costs, in the units of `total`. True: stop.
  bool done(double weight, const std::string& now) {
    done_ += weight;
    watch_.progress(std::min(1.0, done_ / total_), now);
    return watch_.stop();
  }

 private:
  double total_;
  double done_ = 0;
  const ComputeWatch& watch_;
};

/// What a repetition of this batch costs: samples, as that is what time grows with.
double weight(std::int64_t batch) { return kStepsPerRepetition * static_cast<double>(batch); }

/// An optimizer's repetitions, as a share of a repetition of one sample.
constexpr double kOptimizerWeight = 1;

double total_weight(const ComputePlan& plan) {
  double sum = kOptimizerWeight * static_cast<double>(plan.optimizers.size()) *
               static_cast<double>(plan.repetitions);
  for (const std::int64_t batch : plan.batches) {
    sum += weight(batch) * static_cast<double>(plan.warmup + 1 + plan.repetitions);
  }
  return sum;
}

[[noreturn]] void fail_out_of_memory(const ComputePlan& plan, std::int64_t batch) {
  throw MissingError(fmt::format(
      "error: batch {} of {} ({}) does not fit into the device's memory\nremedy: leave it out of "
      "--batches; batches that were measured are kept",
      batch, plan.model, to_string(plan.precision)));
}

/// Warms up, and counts operators and bytes. False: stopped.
bool begin_batch(const ComputePlan& plan, BatchSamples& samples, std::int64_t batch, Steps& steps) {
  for (std::int64_t i = 0; i < plan.warmup; ++i) {
    samples.warm_up();
    if (steps.done(weight(batch), fmt::format("batch {}, warm-up", batch))) return false;
  }
  samples.count();
  return !steps.done(weight(batch), fmt::format("batch {}, operators and memory", batch));
}

/// One repetition of each batch in turn, then again. False: stopped.
bool measure_batches(const ComputePlan& plan, const Chain& chain, MeasuredDevice& device,
                     ComputeProfile& profile, const ComputeWatch& watch, Steps& steps) {
  std::vector<BatchSamples> all;
  for (const std::int64_t batch : plan.batches) {
    try {
      all.emplace_back(chain, device, plan.precision, batch);
      if (!begin_batch(plan, all.back(), batch, steps)) return false;
    } catch (const c10::OutOfMemoryError&) {
      fail_out_of_memory(plan, batch);
    }
  }
  for (std::int64_t round = 1; round <= plan.repetitions; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].repeat();
      const std::string now =
          fmt::format("batch {}, repetition {} of {}", plan.batches[i], round, plan.repetitions);
      const bool stop = steps.done(weight(plan.batches[i]), now);
      if (round >= kLeastRepetitions) put_point(profile, all[i].point());
      if (stop) return false;
    }
    if (round >= kLeastRepetitions) watch.keep(profile);
  }
  return true;
}

/// Each optimizer on the gradients of one small batch. False: stopped.
bool measure_optimizers(const ComputePlan& plan, const Chain& chain, MeasuredDevice& device,
                        ComputeProfile& profile, const ComputeWatch& watch, Steps& steps) {
  StepRunner runner(chain, device, plan.precision);
  runner.make_gradients(
      random_batch(chain.input, 2, device.torch_device(), input_type(plan.precision)));
  for (const std::string& kind : plan.optimizers) {
    const auto optimizer = default_optimizer(kind, parameters(chain));
    for (std::int64_t i = 0; i < plan.warmup; ++i) runner.time_optimizer(*optimizer);
    std::vector<Seconds> samples;
    for (std::int64_t i = 0; i < plan.repetitions; ++i) {
      samples.push_back(runner.time_optimizer(*optimizer));
      if (steps.done(kOptimizerWeight, "optimizer " + kind)) return false;
    }
    const Spread time = spread_of(samples);
    put_optimizer(profile, {kind, time.median, time.relative, plan.repetitions});
    watch.keep(profile);
  }
  return true;
}

/// States what the device and the units are. What the profile holds already must be of the same.
void begin_profile(const Chain& chain, MeasuredDevice& device, ComputeProfile& profile) {
  const std::vector<ProfiledUnit> units = profiled_units(chain);
  if (!profile.units.empty() && profile.units != units) {
    throw InputError(fmt::format(
        "error: the profile's points are of a {} with other units or tensors\nremedy: give another "
        "--output, or remove the file",
        profile.model));
  }
  profile.units = units;
  if (profile.rates == DeviceRates()) profile.rates = measure_rates(device);
}

}  // namespace

std::vector<ProfiledUnit> profiled_units(const Chain& chain) {
  std::vector<ProfiledUnit> units;
  for (const ChainUnit& unit : chain.units) {
    ProfiledUnit& profiled = units.emplace_back();
    profiled.name = unit.name;
    for (const torch::Tensor& tensor : unit.module->parameters()) {
      profiled.tensors.push_back(tensor.numel());
    }
    for (const torch::Tensor& tensor : buffers(unit)) profiled.buffer_elements += tensor.numel();
  }
  return units;
}

ComputePlan remaining(const ComputePlan& plan, const ComputeProfile& profile) {
  ComputePlan left = plan;
  for (const BatchPoint& point : profile.points) {
    if (point.repetitions >= plan.repetitions) std::erase(left.batches, point.batch);
  }
  for (const OptimizerTime& time : profile.optimizers) {
    if (time.repetitions >= plan.repetitions) std::erase(left.optimizers, time.kind);
  }
  return left;
}

bool calibrate_compute(const ComputePlan& plan, MeasuredDevice& device, ComputeProfile& profile,
                       const ComputeWatch& watch) {
  check(plan.repetitions >= kLeastRepetitions, "enough repetitions for a spread");
  const Chain chain = prepared_chain(plan, device);
  begin_profile(chain, device, profile);
  watch.keep(profile);
  Steps steps(total_weight(plan), watch);
  if (!measure_batches(plan, chain, device, profile, watch, steps)) {
    watch.keep(profile);
    return false;
  }
  return measure_optimizers(plan, chain, device, profile, watch, steps);
}

Seconds estimated_time(const ComputePlan& plan, MeasuredDevice& device) {
  if (plan.batches.empty()) return Seconds(0);
  const Chain chain = prepared_chain(plan, device);
  BatchSamples samples(chain, device, plan.precision, plan.batches.front());
  samples.warm_up();
  samples.count();
  samples.repeat();
  const Seconds step = samples.point().whole.step;
  return step * (total_weight(plan) / static_cast<double>(plan.batches.front()));
}

}  // namespace rehearse::inline calibrate
