#pragma once

#include <vector>

#include "economy/options.hpp"

namespace rehearse::inline economy {

/// GPUs that do the same, and how much of their time they compute, and wait for what is sent. The
/// rest they are idle.
struct GpuLoad {
  double gpus = 0;
  Watts tdp{};
  double compute = 0, communication = 0;
};

/// Means over time, before the building's share.
struct Power {
  Watts gpus{};
  Watts hosts{};

  Watts total(double pue) const { return (gpus + hosts) * pue; }
};

/// tdp x (compute, communication and idle shares of the time, each times its share of the tdp),
/// over all GPUs.
Watts gpu_power(const EnergyOptions& options, const std::vector<GpuLoad>& loads);
/// The same while they do nothing.
Watts idle_gpu_power(const EnergyOptions& options, const std::vector<GpuLoad>& loads);

/// Power of one node beside its GPUs where nothing is said. It is half of what its GPUs draw at
/// most (in a DGX A100, 6.5 kW at most with 3.2 kW of GPUs, as much again), 300 W without a GPU.
Watts host_power(Watts gpus);

/// 1 kWh is 3.6 MJ.
double kilowatt_hours(Watts power, Seconds time);

}  // namespace rehearse::inline economy
