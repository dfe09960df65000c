#pragma once

#include "profile/compute_profile.hpp"

namespace rehearse::inline profile {

// What a profile's compute costs may be off by. Every figure is the half-width of a 90 % interval
// of ln(time), so 0.1 stands for about 10 %; independent ones add up in quadrature.

/// Error between two sessions on one device. A CPU's: the two sessions of 2026-11-20 on the shipped
/// AMD EPYC, a virtual machine, are 8 to 13 % apart at each of five batches (README's example and
/// platforms/profiles/compute). A GPU's has not been measured: a guess for one that holds its
/// clocks.
inline constexpr double kCpuDrift = 0.12;
inline constexpr double kGpuDrift = 0.03;

/// Error of compute that is scaled to a whole step: drift between sessions (kGpuDrift), and what a
/// strategy adds to a step even of one GPU. DDP on one V100 trains 319 images/s, without DDP 329
/// (pytorch benchmarks/distributed/ddp, ResNet-50).
inline constexpr double kWholeStepError = 0.043;

/// Error of interpolation between two batches that are the only ones: none can be left out to see.
inline constexpr double kUntestedInterpolation = 0.1;

/// Error for each doubling of the batch beyond the only measured one. In proportion is the most
/// that compute can grow by; where nothing grew it would be off by ln 2.
inline constexpr double kUntestedExtrapolation = 0.5;

/// Error for each doubling beyond several batches, at least: kernels change with the batch, and a
/// short straight stretch does not tell.
inline constexpr double kLeastExtrapolation = 0.05;

/// Error of a whole step's forward and backward at a batch. It adds up the drift between sessions,
/// the units' sum against the whole step, and the sampling of the units' medians. Between measured
/// batches the error of those left out of the interpolation joins. Outside them the error of the
/// outermost one on that side joins, left out of the extension, for each doubling that lies
/// between. The profile must have points.
double compute_error(const ComputeProfile& profile, std::int64_t batch);

}  // namespace rehearse::inline profile
