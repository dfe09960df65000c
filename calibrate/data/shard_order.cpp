#include "data/shard_order.hpp"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"

namespace rehearse::inline calibrate {
namespace {

/// A whole number below `bound`, each as likely: draws of the last, incomplete run are refused.
std::uint64_t below(RandomStream& stream, std::uint64_t bound) {
  const std::uint64_t whole_runs = RandomStream::max() - RandomStream::max() % bound;
  for (;;) {
    const std::uint64_t draw = stream();
    if (draw < whole_runs) return draw % bound;
  }
}

}  // namespace

ShardOrder::ShardOrder(const ShardOptions& options)
    : options_(options), batches_(options.samples / options.workers / options.batch) {
  check(options.worker < options.workers, "a worker is one of the workers");
  if (batches_ == 0) {
    throw InputError(fmt::format(
        "error: {} samples over {} workers are {} each, fewer than a batch of {}\n"
        "remedy: a smaller --batch, or more --train-samples",
        options.samples, options.workers, options.samples / options.workers, options.batch));
  }
}

std::vector<std::uint32_t> ShardOrder::batch(std::uint64_t number) {
  shuffle(number / batches_);
  const auto begin =
      shard_.begin() + static_cast<std::ptrdiff_t>(number % batches_ * options_.batch);
  return {begin, begin + static_cast<std::ptrdiff_t>(options_.batch)};
}

/// Fisher and Yates' shuffle, as Durstenfeld's algorithm 235 (1964).
void ShardOrder::shuffle(std::uint64_t epoch) {
  if (epoch == epoch_) return;
  epoch_ = epoch;
  std::vector<std::uint32_t> all(options_.samples);
  std::iota(all.begin(), all.end(), 0U);
  RandomStream stream = random_stream(options_.seed, "shuffle", epoch);
  for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[below(stream, i)]);
  shard_.clear();
  for (std::size_t i = options_.worker; i < all.size(); i += options_.workers)
    shard_.push_back(all[i]);
}

}  // namespace rehearse::inline calibrate
