#include "comm/sweep_overlap.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include "base/percentile.hpp"
#include "comm/sweep_timing.hpp"

namespace rehearse::inline calibrate {
namespace {

/// What is timed lasts so long, so that starting a thread does not count.
constexpr Seconds kTimed(30e-3);
/// What it is timed beside lasts this much longer.
constexpr double kCover = 3;
constexpr int kMostRepetitions = 5000;

/// Matrix products of one size, as a training step is full of.
class Computation {
 public:
  void run_once() { torch::mm_out(product_, left_, right_); }
  void run(int times) {
    for (int i = 0; i < times; ++i) run_once();
  }

 private:
  torch::Tensor left_ = torch::ones({256, 256}), right_ = torch::ones({256, 256});
  torch::Tensor product_ = torch::zeros({256, 256});
};

class Overlap {
 public:
  Overlap(const ProcessGroup& group, CollectiveKind kind, Bytes size)
      : group_(group), collective_(group, kind, size, torch::kCPU) {
    computation_.run(3);
    const Seconds product = agreed(time_of(torch::kCPU, [&] { computation_.run(10); }) / 10);
    const Seconds collective = agreed(time_collective(group_, collective_, torch::kCPU, 3).wall);
    products_ = times_in(kTimed, product, kMostRepetitions);
    calls_ = times_in(kTimed, collective, kMostRepetitions);
    covering_calls_ = times_in(kTimed * kCover, collective, kMostRepetitions);
  }

  Bytes size() const { return collective_.size(); }
  Seconds comm_alone() { return time_collective(group_, collective_, torch::kCPU, calls_).wall; }
  Seconds compute_alone() {
    barrier(group_);
    return time_of(torch::kCPU, [&] { computation_.run(products_); });
  }
  Seconds compute_beside() {
    barrier(group_);
    std::thread communication([&] {
      for (int call = 0; call < covering_calls_; ++call) collective_.run();
    });
    const Seconds time = time_of(torch::kCPU, [&] { computation_.run(products_); });
    communication.join();
    return time;
  }
  Seconds comm_beside() {
    Seconds time;
    std::atomic<bool> over = false;
    std::thread communication([&] {
      time = time_collective(group_, collective_, torch::kCPU, calls_).wall;
      over = true;
    });
    while (!over) computation_.run_once();
    communication.join();
    return time;
  }

 private:
  /// All ranks must run as many collectives.
  Seconds agreed(Seconds time) { return slowest_of_ranks(group_, torch::kCPU, {time}).front(); }

  ProcessGroup group_;
  RepeatedCollective collective_;
  Computation computation_;
  int products_ = 1, calls_ = 1, covering_calls_ = 1;
};

Seconds median(const ProcessGroup& group, const std::vector<Seconds>& samples) {
  return percentile(slowest_of_ranks(group, torch::kCPU, samples), 0.5);
}

}  // namespace

SweepOverlap measure_overlap(const ProcessGroup& group, CollectiveKind kind, Bytes size,
                             int repetitions) {
  Overlap overlap(group, kind, size);
  std::vector<Seconds> comm_alone, comm_beside, compute_alone, compute_beside;
  for (int i = 0; i < repetitions; ++i) {
    comm_alone.push_back(overlap.comm_alone());
    compute_alone.push_back(overlap.compute_alone());
    compute_beside.push_back(overlap.compute_beside());
    comm_beside.push_back(overlap.comm_beside());
  }
  return {kind,
          overlap.size(),
          median(group, comm_alone),
          median(group, comm_beside),
          median(group, compute_alone),
          median(group, compute_beside)};
}

}  // namespace rehearse::inline calibrate
