#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "replay/replica.hpp"

namespace rehearse::inline calibrate {

/// Threads with a replica each. What is given to them begins in the order given; results do not
/// depend on their number.
class ReplicaPool {
 public:
  /// Throws as Replica's constructor does.
  ReplicaPool(const NetworkOptions& options, int threads);
  ~ReplicaPool();
  ReplicaPool(const ReplicaPool&) = delete;
  ReplicaPool& operator=(const ReplicaPool&) = delete;

  /// Result that the work returns, or the exception that it ended with.
  template <class Result>
  std::future<Result> submit(std::function<Result(Replica&)> work) {
    auto task = std::make_shared<std::packaged_task<Result(Replica&)>>(std::move(work));
    std::future<Result> result = task->get_future();
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back([task](Replica& replica) { (*task)(replica); });
    }
    changed_.notify_one();
    return result;
  }

  /// The initial parameters.
  std::vector<std::byte> values() const { return replicas_.front()->values(); }

 private:
  void serve(Replica& replica);

  std::vector<std::unique_ptr<Replica>> replicas_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void(Replica&)>> waiting_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

/// How good the parameters are over the whole test set, in parts of a fixed size whose sums are
/// added in order.
Score score_all(ReplicaPool& pool, const std::shared_ptr<const std::vector<std::byte>>& parameters,
                const Dataset& data);

}  // namespace rehearse::inline calibrate
