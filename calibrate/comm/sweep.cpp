#include "comm/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/random.hpp"
#include "comm/sweep_overlap.hpp"
#include "comm/sweep_timing.hpp"

namespace rehearse::inline calibrate {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostCalls = 200;
/// About what one repetition of an overlap takes: four times what it times, some of it covered.
constexpr Seconds kOverlapRepetition(0.3);

Seconds since(Clock::time_point begin) {
  return Seconds(std::chrono::duration<double>(Clock::now() - begin).count());
}

/// The same samples on every rank, in the same order.
class Sweep {
 public:
  Sweep(const ProcessGroup& group, torch::Device device, const SweepOptions& options,
        SweepSamples& samples)
      : group_(group), device_(device), options_(options), samples_(samples) {
    const int ranks = group->getSize();
    for (const CollectiveKind kind : options.kinds) {
      for (const Bytes size : options.sizes) samples_.at(kind, measured_size(size, ranks));
      for (const Bytes size : options.overlapped) {
        const Bytes measured = measured_size(size, ranks);
        if (!device.is_cuda() && !samples.has_overlap(kind, measured)) {
          overlaps_.emplace_back(kind, measured);
        }
      }
    }
    for (std::size_t i = 0; i < samples_.series.size(); ++i) {
      if (is_wanted(samples_.series[i])) wanted_.push_back(i);
    }
  }

  /// Chooses how many calls a sample takes. The time of all that is left, by one call of each.
  Seconds prepare() {
    Seconds left = kOverlapRepetition * static_cast<double>(overlaps_.size()) *
                   static_cast<double>(options_.overlap_repetitions);
    for (const std::size_t index : wanted_) {
      SweepSeries& series = samples_.series[index];
      RepeatedCollective collective(group_, series.kind, series.size, device_);
      const Seconds one = agreed(time_collective(group_, collective, device_, 1).wall);
      if (series.calls == 0) series.calls = times_in(options_.sample, one, kMostCalls);
      left += one * static_cast<double>(series.calls + 1) * lacking(series);
    }
    return left;
  }

  void run(const SweepWatch& watch) {
    const auto begin = Clock::now();
    count_work();
    bool stopped = false, late = false;
    for (int round = 0; round < options_.repetitions && !stopped && !late; ++round) {
      if (!repeat(round)) continue;
      stopped = any_rank(watch.stop());
      late = options_.limit > Seconds(0) && round + 1 >= kLeastSweepRepetitions &&
             any_rank(since(begin) > options_.limit);
      watch.progress(share(begin), fmt::format("collectives, repetition {} of {}", round + 1,
                                               options_.repetitions));
      watch.keep(samples_);
    }
    for (const auto& [kind, size] : overlaps_) {
      if (stopped) return;
      samples_.overlaps.push_back(
          measure_overlap(group_, kind, size, options_.overlap_repetitions));
      ++done_;
      watch.progress(share(begin), "collectives beside compute");
      stopped = any_rank(watch.stop());
      watch.keep(samples_);
    }
    if (stopped) return;
    if (device_.is_cuda() && options_.copies && samples_.copies.empty()) {
      samples_.copies = measure_copies(options_.sizes, options_.repetitions);
    }
    samples_.finished = true;
    watch.keep(samples_);
  }

 private:
  bool is_wanted(const SweepSeries& series) const {
    const auto same_size = [&](Bytes size) {
      return measured_size(size, group_->getSize()) == series.size;
    };
    return lacking(series) > 0 &&
           std::find(options_.kinds.begin(), options_.kinds.end(), series.kind) !=
               options_.kinds.end() &&
           std::any_of(options_.sizes.begin(), options_.sizes.end(), same_size);
  }
  int lacking(const SweepSeries& series) const {
    return std::max(0, options_.repetitions - static_cast<int>(series.times.size()));
  }

  /// One sample of each series that has no more than `round`. False if none has so few.
  bool repeat(int round) {
    std::vector<std::size_t> order;
    for (const std::size_t index : wanted_) {
      if (std::cmp_less_equal(samples_.series[index].times.size(), round)) order.push_back(index);
    }
    if (order.empty()) return false;
    // Another order each time, the same on all ranks: what follows a large one pays for it.
    RandomStream stream = random_stream(1, "sweep", static_cast<std::uint64_t>(round));
    for (std::size_t left = order.size(); left > 1; --left)
      std::swap(order[left - 1], order[stream() % left]);
    std::vector<Seconds> own, hosts;
    for (const std::size_t index : order) {
      const SweepSeries& series = samples_.series[index];
      RepeatedCollective collective(group_, series.kind, series.size, device_);
      const CollectiveTime time = time_collective(group_, collective, device_, series.calls);
      own.push_back(time.wall);
      hosts.push_back(time.host);
    }
    const std::vector<Seconds> slowest = slowest_of_ranks(group_, device_, own);
    const std::vector<Seconds> busiest = slowest_of_ranks(group_, device_, hosts);
    for (std::size_t i = 0; i < order.size(); ++i) {
      samples_.series[order[i]].times.push_back(slowest[i]);
      samples_.series[order[i]].host_times.push_back(busiest[i]);
    }
    done_ += static_cast<double>(order.size());
    return true;
  }

  void count_work() {
    all_ = static_cast<double>(overlaps_.size());
    for (const std::size_t index : wanted_) all_ += lacking(samples_.series[index]);
  }
  double share(Clock::time_point begin) const {
    const double of_time = options_.limit > Seconds(0) ? since(begin) / options_.limit : 0;
    return std::min(1.0, std::max(all_ > 0 ? done_ / all_ : 1, of_time));
  }
  /// The slowest rank's.
  Seconds agreed(Seconds time) { return slowest_of_ranks(group_, device_, {time}).front(); }
  bool any_rank(bool own) { return agreed(Seconds(own ? 1 : 0)) > Seconds(0); }

  ProcessGroup group_;
  torch::Device device_;
  const SweepOptions& options_;
  SweepSamples& samples_;
  std::vector<std::size_t> wanted_;  ///< of the samples' series
  std::vector<std::pair<CollectiveKind, Bytes>> overlaps_;
  double done_ = 0, all_ = 0;
};

}  // namespace

std::vector<Bytes> default_sweep_sizes() {
  std::vector<Bytes> sizes;
  for (double size = 1024; size <= 64.0 * 1024 * 1024; size *= 2) sizes.emplace_back(size);
  return sizes;
}

void sweep_collectives(const ProcessGroup& group, torch::Device device, const SweepOptions& options,
                       SweepSamples& samples, const SweepWatch& watch) {
  samples.finished = false;
  Sweep sweep(group, device, options, samples);
  sweep.prepare();
  sweep.run(watch);
}

Seconds estimated_time(const ProcessGroup& group, torch::Device device, const SweepOptions& options,
                       const SweepSamples& samples) {
  SweepSamples copy = samples;
  return Sweep(group, device, options, copy).prepare();
}

}  // namespace rehearse::inline calibrate
