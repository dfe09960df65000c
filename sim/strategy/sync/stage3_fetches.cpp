#include "strategy/sync/stage3_fetches.hpp"

#include <algorithm>

namespace rehearse::inline strategy {
namespace {

class Coordinator {
 public:
  Coordinator(const std::vector<std::int64_t>& elements, const std::vector<std::size_t>& uses,
              const DeepspeedZero3& options)
      : elements_(elements),
        uses_(uses),
        options_(options),
        there_(elements.size(), false),
        fetched_for_(elements.size(), 0) {}

  std::vector<Stage3Use> play() {
    std::vector<Stage3Use> all(uses_.size());
    for (std::size_t use = 0; use < uses_.size(); ++use) {
      const std::size_t module = uses_[use];
      all[use].fetches = gather(module);
      while (next_ < uses_.size() && fetched_for_[module] <= use) pass();
      prefetch(all[use].prefetched);
      all[use].released = release(module, use + 1);
    }
    return all;
  }

 private:
  bool gather(std::size_t module) {
    if (there_[module]) return false;
    there_[module] = true;
    live_ += elements_[module];
    return true;
  }

  /// The next use in the queue counts as fetched.
  std::size_t pass() {
    const std::size_t module = uses_[next_++];
    fetched_for_[module] = next_;
    return module;
  }

  void prefetch(std::vector<std::size_t>& prefetched) {
    const std::int64_t most =
        std::min(options_.max_live_parameters - live_, options_.prefetch_bucket_size);
    std::int64_t sum = 0;
    while (next_ < uses_.size() && sum < most) {
      const std::size_t module = pass();
      if (!gather(module)) continue;
      prefetched.push_back(module);
      sum += elements_[module];
    }
  }

  bool release(std::size_t module, std::size_t next_use) {
    if (fetched_for_[module] > next_use + 1) return false;
    std::int64_t distance = 0;
    for (std::size_t use = next_use; use < uses_.size() && distance < options_.max_reuse_distance;
         ++use) {
      if (uses_[use] == module) return false;
      distance += elements_[uses_[use]];
    }
    there_[module] = false;
    live_ -= elements_[module];
    return true;
  }

  const std::vector<std::int64_t>& elements_;
  const std::vector<std::size_t>& uses_;
  const DeepspeedZero3& options_;
  std::vector<bool> there_;
  std::vector<std::size_t> fetched_for_;  ///< uses up to this one, by module
  std::size_t next_ = 0;                  ///< use in the queue
  std::int64_t live_ = 0;
};

}  // namespace

std::vector<Stage3Use> stage3_uses(const std::vector<std::int64_t>& elements,
                                   const std::vector<std::size_t>& uses,
                                   const DeepspeedZero3& options) {
  return Coordinator(elements, uses, options).play();
}

}  // namespace rehearse::inline strategy
