#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measure/device.hpp"
#include "model/model.hpp"
#include "models/chain.hpp"
#include "models/script_model.hpp"
#include "profile/compute_profile.hpp"

namespace rehearse::inline calibrate {

/// Plan of what is to be measured.
struct ComputePlan {
  std::string model;
  ModelShape shape;
  /// A user's own module, instead of the network of that name and shape.
  std::optional<ScriptSource> script = std::nullopt;
  Precision precision = Precision::fp32;
  std::vector<std::int64_t> batches;    ///< ascending
  std::vector<std::string> optimizers;  ///< of timed_optimizers()
  std::int64_t repetitions = 20;        ///< that count
  std::int64_t warmup = 3;              ///< that do not, per batch
};

/// Least repetitions of a batch that a file may hold: fewer have no spread.
constexpr std::int64_t kLeastRepetitions = 3;

/// How the work is watched and stopped. All are called between steps, on the caller's thread.
struct ComputeWatch {
  /// Share of the steps that are done, and what runs now ("batch 4, repetition 3 of 20").
  std::function<void(double share, const std::string& now)> progress;
  /// The profile has got new points: keep it.
  std::function<void(const ComputeProfile&)> keep;
  /// True to end after this step; what was kept stands.
  std::function<bool()> stop;
};

/// Units of the chain: their parameter tensors (a tied weight belongs to the unit that registers
/// it) and the elements of their buffers.
std::vector<ProfiledUnit> profiled_units(const Chain& chain);

/// Part of `plan` that `profile` does not hold yet: batches and optimizers with too few
/// repetitions.
ComputePlan remaining(const ComputePlan& plan, const ComputeProfile& profile);

/// Measures `plan` into `profile`, whose other points stay; it is kept once before the first step.
/// Repetitions of the batches take turns, so that drift meets all of them alike. False if it was
/// stopped. MissingError if a batch does not fit into the device's memory; smaller ones are kept.
/// InputError if the profile's points are of other units.
bool calibrate_compute(const ComputePlan& plan, MeasuredDevice& device, ComputeProfile& profile,
                       const ComputeWatch& watch);

/// The estimated time of `plan`, from one step (after another) of its smallest batch.
Seconds estimated_time(const ComputePlan& plan, MeasuredDevice& device);

}  // namespace rehearse::inline calibrate
