#pragma once

#include <cstdint>
#include <vector>

namespace rehearse::inline calibrate {

struct ShardOptions {
  std::size_t samples = 0;
  std::uint32_t workers = 1, worker = 0;
  std::size_t batch = 1;
  std::uint64_t seed = 1;
};

/// Which samples a worker's batches hold, by the rule of torch.utils.data.DistributedSampler with
/// drop_last: each epoch shuffles all samples anew, alike on all workers, and worker w takes the
/// w-th of every `workers`. An epoch has as many batches as a shard fills; what is left of it waits
/// for another shuffle.
class ShardOrder {
 public:
  /// InputError where a worker's shard is smaller than a batch.
  explicit ShardOrder(const ShardOptions& options);

  std::uint64_t batches_per_epoch() const { return batches_; }
  /// Indices of the samples of the worker's batch `number`, counted over all epochs.
  std::vector<std::uint32_t> batch(std::uint64_t number);

 private:
  void shuffle(std::uint64_t epoch);

  ShardOptions options_;
  std::uint64_t batches_ = 0;
  std::uint64_t epoch_ = ~std::uint64_t{0};
  std::vector<std::uint32_t> shard_;  ///< of `epoch_`
};

}  // namespace rehearse::inline calibrate
