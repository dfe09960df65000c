#include "measure/time_slice.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace rehearse::inline calibrate {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDuration(500);
/// Shorter ones are the clock's and the interrupts'.
constexpr double kShortestPause = 3e-4;

bool pin_to(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  return sched_setaffinity(0, sizeof cores, &cores) == 0;  // of the calling thread
}

/// Computes until `end`, and notes when it did not.
std::vector<double> pauses_until(Clock::time_point end) {
  std::vector<double> pauses;
  for (auto last = Clock::now(); last < end;) {
    const auto now = Clock::now();
    const double pause = std::chrono::duration<double>(now - last).count();
    if (pause > kShortestPause) pauses.push_back(pause);
    last = now;
  }
  return pauses;
}

}  // namespace

Seconds measure_time_slice() {
  const int core = std::max(0, sched_getcpu());
  const auto end = Clock::now() + kDuration;
  std::vector<double> pauses;
  bool pinned = false;
  std::thread watched([&] {
    pinned = pin_to(core);
    pauses = pauses_until(end);
  });
  std::thread rival([&] {
    pin_to(core);
    pauses_until(end);
  });
  watched.join();
  rival.join();
  if (!pinned || pauses.empty()) return Seconds(0);
  std::sort(pauses.begin(), pauses.end());
  return Seconds(pauses[pauses.size() / 2]);
}

}  // namespace rehearse::inline calibrate
