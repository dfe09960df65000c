#pragma once

#include <vector>

#include "base/quantity.hpp"
#include "comm/process_group.hpp"
#include "comm/sweep_collective.hpp"

namespace rehearse::inline calibrate {

/// Runs `work` between two moments at which the device has nothing left to do.
template <class Work>
Seconds time_of(torch::Device device, Work&& work) {
  const auto settle = [&] {
    if (device.is_cuda()) torch::cuda::synchronize();
  };
  settle();
  const auto begin = std::chrono::steady_clock::now();
  work();
  settle();
  return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

/// Time of one collective: by the clock, and the processor time of this process, all its threads.
struct CollectiveTime {
  Seconds wall, host;
};

/// Means of `calls` collectives one after the other, from a barrier on.
CollectiveTime time_collective(const ProcessGroup& group, RepeatedCollective& collective,
                               torch::Device device, int calls);

/// Each rank's samples -> the slowest rank's, the same on all ranks.
std::vector<Seconds> slowest_of_ranks(const ProcessGroup& group, torch::Device device,
                                      const std::vector<Seconds>& samples);

/// How often something of this duration fits into a time; at least once.
int times_in(Seconds whole, Seconds one, int most);

}  // namespace rehearse::inline calibrate
