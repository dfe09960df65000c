#include "replay/replica_pool.hpp"

#include <torch/torch.h>

#include <algorithm>

#include "measure/host_threads.hpp"

namespace rehearse::inline calibrate {
namespace {

constexpr std::uint32_t kScoredTogether = 250;

}  // namespace

ReplicaPool::ReplicaPool(const NetworkOptions& options, int threads) {
  set_host_threads(1);
  for (int i = 0; i < threads; ++i) replicas_.push_back(std::make_unique<Replica>(options));
  for (const auto& replica : replicas_) threads_.emplace_back([&] { serve(*replica); });
}

ReplicaPool::~ReplicaPool() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReplicaPool::serve(Replica& replica) {
  at::set_num_threads(1);  // OpenMP counts for each thread that begins parallel work
  for (;;) {
    std::function<void(Replica&)> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
      if (ended_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work(replica);
  }
}

Score score_all(ReplicaPool& pool, const std::shared_ptr<const std::vector<std::byte>>& parameters,
                const Dataset& data) {
  const auto count = static_cast<std::uint32_t>(data.test.count());
  std::vector<std::future<Score>> parts;
  for (std::uint32_t first = 0; first < count; first += kScoredTogether) {
    const std::uint32_t last = std::min(first + kScoredTogether, count);
    parts.push_back(pool.submit<Score>(
        [=, &data](Replica& replica) { return replica.score(*parameters, data, first, last); }));
  }
  Score all;
  for (auto& part : parts) {
    const Score one = part.get();
    all.loss_sum += one.loss_sum;
    all.samples += one.samples;
    all.correct += one.correct;
    all.predictions += one.predictions;
  }
  return all;
}

}  // namespace rehearse::inline calibrate
