#include "economy/energy.hpp"

namespace rehearse::inline economy {

Watts gpu_power(const EnergyOptions& options, const std::vector<GpuLoad>& loads) {
  Watts sum;
  for (const GpuLoad& load : loads) {
    const double idle = 1 - load.compute - load.communication;
    sum += load.tdp * load.gpus *
           (load.compute * options.compute + load.communication * options.communication +
            idle * options.idle);
  }
  return sum;
}

Watts idle_gpu_power(const EnergyOptions& options, const std::vector<GpuLoad>& loads) {
  Watts sum;
  for (const GpuLoad& load : loads) sum += load.tdp * load.gpus * options.idle;
  return sum;
}

Watts host_power(Watts gpus) {
  constexpr double kShare = 0.5;
  constexpr Watts kCpuNode{300};
  return gpus > Watts(0) ? gpus * kShare : kCpuNode;
}

double kilowatt_hours(Watts power, Seconds time) {
  constexpr double kJoules = 3.6e6;
  return power.value() * time.value() / kJoules;
}

}  // namespace rehearse::inline economy
