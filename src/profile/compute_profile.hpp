#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/quantity.hpp"
#include "config/document.hpp"
#include "model/model.hpp"

namespace rehearse::inline profile {

/// Device and versions that a profile was measured with. A field that does not apply is "none".
struct ProfileOrigin {
  std::string device;
  std::string driver = "none";
  std::string cuda = "none";
  std::string nccl = "none";
  std::string libtorch;
  std::string date;     ///< ISO 8601, UTC
  std::string command;  ///< the command line that measured it
  int host_threads = 1;

  bool operator==(const ProfileOrigin&) const = default;
};

/// The highest rates that a matrix product in each format and a copy reached on the device, and its
/// memory. 0 where the device lacks the format. What was measured is carried over to other devices
/// by these.
struct DeviceRates {
  FlopsPerSecond fp32{0}, tf32{0}, fp16{0}, bf16{0};
  BytesPerSecond memory_bandwidth{0};  ///< read and written, added up
  Bytes memory{0};

  bool operator==(const DeviceRates&) const = default;
};

/// Name, tensors and buffers of a unit, the same at every batch.
struct ProfiledUnit {
  std::string name;
  std::vector<std::int64_t> tensors;  ///< elements of each parameter tensor, in registration order
  std::int64_t buffer_elements = 0;   ///< of batch norms' running statistics, fp32
  Bytes handed{0};  ///< of a sample, by the unit before, as one tensor; 0: not known, or more
  std::vector<recorded::Operator> operators = {};  ///< of its forward, where a run was recorded

  std::int64_t parameters() const;
  bool operator==(const ProfiledUnit&) const = default;
};

/// Measured costs of one unit for one batch. A spread is the interquartile range over the median.
struct UnitTimes {
  std::string name;
  Seconds forward, backward;  ///< medians
  double forward_spread = 0;
  double backward_spread = 0;
  /// CPU time to launch the unit's kernels (a GPU's; 0 on CPUs, where the call is the work).
  Seconds forward_launch, backward_launch;
  Bytes saved;      ///< kept from forward to backward
  Bytes workspace;  ///< the most that lives only while the unit computes, either way
  Flops forward_flops, backward_flops;  ///< of products (matmul, convolution, attention)
  Bytes forward_moved, backward_moved;  ///< what its operators read and write

  bool operator==(const UnitTimes&) const = default;
};

/// Medians of whole training steps in which nothing inside was timed.
struct StepTimes {
  Seconds forward, backward, optimizer, step;

  bool operator==(const StepTimes&) const = default;
};

/// Everything measured for one batch size.
struct BatchPoint {
  std::int64_t batch = 1;
  std::int64_t repetitions = 1;
  Bytes allocated_peak;                ///< of a whole training step
  std::optional<Bytes> reserved_peak;  ///< likewise, of the caching allocator (GPUs alone)
  StepTimes whole;
  std::vector<UnitTimes> units;  ///< in forward order

  Seconds units_sum() const;
  /// Sum of the units' forward and backward over the whole step's, less 1.
  double sum_difference() const;
  bool operator==(const BatchPoint&) const = default;
};

struct OptimizerTime {
  std::string kind;  ///< sgd, sgd_momentum, adam, adamw
  Seconds time;      ///< median of one step over all parameters
  double spread = 0;
  std::int64_t repetitions = 1;

  bool operator==(const OptimizerTime&) const = default;
};

/// Costs for one batch, measured or interpolated.
struct BatchCosts {
  std::vector<UnitTimes> units;
  Bytes allocated_peak;
  /// Why this lies outside what was measured ("batch 64 from batches 1 to 4"); empty if it does
  /// not.
  std::string outside;
};

/// Units are to add up to the whole step within this.
constexpr double kSumTolerance = 0.05;

/// Measured compute of one model on one device in one precision.
struct ComputeProfile {
  ProfileOrigin origin;
  std::string model;
  Precision precision = Precision::fp32;
  // What one sample is: one of the three.
  std::int64_t image = 0;     ///< pixels per side, 3 channels
  std::int64_t sequence = 0;  ///< tokens
  std::string input;          ///< of a user's own module: "784:float", "2x64:long"
  DeviceRates rates;
  /// Which optimizer the whole steps ran.
  std::string step_optimizer = "sgd";
  std::vector<ProfiledUnit> units;  ///< in forward order
  std::vector<OptimizerTime> optimizers;
  std::vector<BatchPoint> points;  ///< by ascending batch

  /// Piecewise linear in the batch between measured ones. Below the smallest and above the largest
  /// batch the nearest two are extended (one point alone: in proportion), never below zero, and
  /// `outside` says so. The profile must have points.
  BatchCosts at(std::int64_t batch) const;
  bool operator==(const ComputeProfile&) const = default;
};

/// Schema that a file of one states, beside `kind: compute`.
inline constexpr const char* kProfileSchema = "rehearse.profile/1";

/// Reads a profile. InputError where it is not one.
ComputeProfile read_compute_profile(const Value& value);

/// The text of the file, which read_compute_profile reads back (times to six significant digits).
std::string to_yaml(const ComputeProfile& profile);

}  // namespace rehearse::inline profile
