#include "comm/sweep.hpp"

#include <numeric>
#include <utility>

#include "base/random.hpp"
#include "comm/sweep_overlap.hpp"
#include "comm/sweep_timing.hpp"

namespace rehearse {
namespace {

constexpr int kMostCalls = 200;

struct Place {
  CollectiveKind kind;
  Bytes size;
  int calls = 1;
  std::vector<Seconds> samples = {};
};

/// The same samples on every rank, in the same order.
class Sweep {
 public:
  Sweep(const ProcessGroup& group, torch::Device device, const SweepOptions& options,
        const SweepProgress& progress)
      : group_(group), device_(device), options_(options), progress_(progress) {
    for (const CollectiveKind kind : options.kinds) {
      for (const Bytes size : options.sizes) places_.push_back({kind, size});
    }
    all_ = places_.size() * static_cast<std::size_t>(options.repetitions + 1) +
           options.kinds.size() * options.overlapped.size();
  }

  std::vector<SweepPoint> points() {
    for (Place& place : places_) choose_calls(place);
    for (int repetition = 0; repetition < options_.repetitions; ++repetition) {
      shuffle(static_cast<std::uint64_t>(repetition));
      for (const std::size_t index : order_) {
        Place& place = places_[index];
        RepeatedCollective collective(group_, place.kind, place.size, device_);
        place.samples.push_back(time_collective(group_, collective, device_, place.calls));
        count();
      }
    }
    std::vector<SweepPoint> points;
    for (const Place& place : places_) {
      const auto slowest = slowest_of_ranks(group_, device_, place.samples);
      points.push_back({place.kind, place.size, percentile(slowest, 0.5), percentile(slowest, 0.05),
                        percentile(slowest, 0.95)});
    }
    return points;
  }

  std::vector<SweepOverlap> overlaps() {
    std::vector<SweepOverlap> overlaps;
    for (const CollectiveKind kind : options_.kinds) {
      for (const Bytes size : options_.overlapped) {
        overlaps.push_back(measure_overlap(group_, kind, size, options_.overlap_repetitions));
        count();
      }
    }
    return overlaps;
  }

 private:
  /// How many calls a sample takes, agreed by all ranks, and the size as it really is.
  void choose_calls(Place& place) {
    RepeatedCollective collective(group_, place.kind, place.size, device_);
    const Seconds first = time_collective(group_, collective, device_, 1);
    place.calls =
        times_in(options_.sample, slowest_of_ranks(group_, device_, {first}).front(), kMostCalls);
    place.size = collective.size();
    count();
  }
  /// Another order each time, the same on all ranks: what follows a large collective pays for it.
  void shuffle(std::uint64_t repetition) {
    order_.resize(places_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    RandomStream stream = random_stream(1, "sweep", repetition);
    for (std::size_t left = order_.size(); left > 1; --left)
      std::swap(order_[left - 1], order_[stream() % left]);
  }
  void count() { progress_(++done_, all_); }

  ProcessGroup group_;
  torch::Device device_;
  const SweepOptions& options_;
  const SweepProgress& progress_;
  std::vector<Place> places_;
  std::vector<std::size_t> order_;  ///< of places_, in this repetition
  std::size_t done_ = 0, all_ = 0;
};

SweepCopy measure_copy(Bytes size, bool to_device, bool pinned, int repetitions) {
  const auto bytes = static_cast<std::int64_t>(size.value());
  const torch::Tensor host =
      torch::zeros({bytes}, torch::TensorOptions(torch::kUInt8).pinned_memory(pinned));
  const torch::Tensor device =
      torch::zeros({bytes}, torch::TensorOptions(torch::kUInt8).device(torch::kCUDA));
  const torch::Tensor &from = to_device ? host : device, &to = to_device ? device : host;
  to.copy_(from, true);
  std::vector<Seconds> samples;
  for (int i = 0; i < repetitions; ++i)
    samples.push_back(time_of(device.device(), [&] { to.copy_(from, true); }));
  return {to_device, pinned, size, percentile(samples, 0.5)};
}

std::vector<SweepCopy> measure_copies(const SweepOptions& options) {
  std::vector<SweepCopy> copies;
  for (const bool pinned : {true, false}) {
    for (const bool to_device : {true, false}) {
      for (const Bytes size : options.sizes)
        copies.push_back(measure_copy(size, to_device, pinned, options.repetitions));
    }
  }
  return copies;
}

}  // namespace

std::vector<Bytes> default_sweep_sizes() {
  std::vector<Bytes> sizes;
  for (double size = 1024; size <= 64.0 * 1024 * 1024; size *= 2) sizes.emplace_back(size);
  return sizes;
}

SweepResult sweep_collectives(const ProcessGroup& group, torch::Device device,
                              const SweepOptions& options, const SweepProgress& progress) {
  Sweep sweep(group, device, options, progress);
  SweepResult result;
  result.ranks = group->getSize();
  result.backend = device.is_cuda() ? "nccl" : "gloo";
  result.points = sweep.points();
  if (!device.is_cuda()) result.overlaps = sweep.overlaps();
  if (device.is_cuda() && options.copies) result.copies = measure_copies(options);
  return result;
}

}  // namespace rehearse
