#pragma once

#include <cstdint>

#include "cost/cost.hpp"

namespace rehearse::inline cost {

/// Conditions under which the given times of an inline model were measured.
struct GivenAt {
  std::int64_t batch = 1;
  Precision precision = Precision::fp32;
  Gpu gpu;
};

/// Conditions for which given times are wanted.
struct GivenFor {
  const Model& model;
  const Gpu& gpu;
  Precision precision;
  std::int64_t batch;
  const AnalyticEfficiency& efficiency;
};

/// `costs` (given times) at another batch, precision or GPU. Of a unit no operators are known, so
/// its roofline is that of one kernel whose bound is not known either:
/// - batch: in proportion, but no less than reading the weights forward, and reading and writing
///   them backward, takes; kUntestedExtrapolation per doubling;
/// - precision and GPU: the geometric mean of two ratios, that of the rates of matrix products and
///   that of the bytes over the memory bandwidths. Half the logarithm of their quotient, with
///   kTransferError, is the error.
/// A given optimizer's time goes by the memory bandwidth. What was scaled is in `outside`; where
/// nothing differs the costs come back as they are.
StepCosts scaled_given(StepCosts costs, const GivenAt& measured, const GivenFor& wanted);

/// Bytes that are kept from forward to backward at one batch and precision over those at another.
double activation_ratio(const GivenAt& measured, Precision precision, std::int64_t batch);

}  // namespace rehearse::inline cost
