#pragma once

#include "base/ends.hpp"

namespace rehearse::inline convergence {

/// Laws of what methods cost in loss: platforms/convergence/methods.yaml, whose comments say what
/// each number is and where it comes from.
struct MethodLaws {
  struct {
    double E, A, B, alpha, beta;
  } loss{};
  struct {
    double A, beta, spread;
  } slope{};
  double most_ratio = 0;
  struct {
    double tokens_at_million, power, excess, spread;
  } batch{};
  struct {
    double gain, gain_size, gap, power, fade, period;
    double off_below, off_above, off_period;
    double untuned_least, untuned_most;
    struct {
      double A, parameters, replicas;
    } batch;
    double least_parameters, most_parameters, most_replicas, most_period;
  } diloco{};
  struct {
    Estimate<double> plain, delayed_nesterov;  ///< nats
  } asynchronous_diloco{};
  Estimate<double> one_update_late;    ///< ln of the loss's ratio
  Estimate<double> fp8, mxfp8, nvfp4;  ///< likewise
  struct {
    double R, most_passes, spread;
  } repeated{};
};

/// The file, which is read once.
const MethodLaws& method_laws();

}  // namespace rehearse::inline convergence
