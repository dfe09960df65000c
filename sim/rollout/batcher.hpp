#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <unordered_map>
#include <vector>

#include "rollout/decode.hpp"

namespace rehearse::inline rollout {

/// A sequence that is to be generated.
struct Request {
  double prompt = 0, response = 0;  ///< tokens
  std::size_t group = 0;            ///< those of one have one prompt, which is computed once
};

/// What a copy of the engine did.
struct BatcherCounts {
  double generated = 0;  ///< tokens of responses
  double computed = 0;   ///< tokens of prompts, those of preempted sequences again
  double steps = 0;
  double sequence_steps = 0;  ///< sequences in a step, summed over steps
  std::size_t preemptions = 0;
  double most_cache = 0;  ///< tokens held at a time, the most

  void add(const BatcherCounts& other);  ///< another copy's
};

/// What a copy holds from a time on.
struct CopyLoad {
  Seconds at;
  double sequences = 0, cache = 0;  ///< at a time; tokens
};

/// Continuous batching of one copy of an engine, from event to event: between two of them the same
/// sequences are in every step. First come, first served; a sequence enters where there is place
/// for it and for what it has to compute, prompts first. Where the cache is full the one that came
/// last is preempted, and computes its tokens again later (vLLM's recompute).
class Batcher {
 public:
  static constexpr Seconds kNever{std::numeric_limits<double>::infinity()};
  /// `places`: tokens that the cache of a tensor group has; `most`: sequences at a time.
  Batcher(const DecodeModel& model, double places, std::size_t most);

  void add(const Request& request);
  bool idle() const { return running_.empty() && waiting_.empty(); }
  Seconds now() const { return now_; }
  /// It does nothing until then.
  void wait_until(Seconds time) { now_ = std::max(now_, time); }

  struct Ended {
    std::size_t request = 0;  ///< by the order of add()
    Seconds started, at;
  };
  /// Goes on to its next event, or a step past `until`, and says who ended. Not where it is idle.
  std::vector<Ended> advance(Seconds until = kNever);

  const BatcherCounts& counts() const { return counts_; }
  CopyLoad load() const { return {now_, static_cast<double>(running_.size()), cache_}; }

 private:
  struct Waiting {
    std::size_t request;
    double made = 0;  ///< tokens of the response, before it was preempted
  };
  struct Running {
    double ends;  ///< step that makes its last token
    std::size_t request;
    double since, entered;  ///< step that it entered in, and tokens that it had made
  };
  bool admit();
  void preempt();
  void leave(const Running& one);
  double held(std::size_t request, double made) const;

  const DecodeModel& model_;
  double places_;
  std::size_t most_;
  std::vector<Request> requests_;
  std::vector<Seconds> started_;  ///< of each request, when it first entered
  std::deque<Waiting> waiting_;
  std::vector<Running> running_;  ///< by entry
  std::unordered_map<std::size_t, std::size_t> group_users_;
  double step_ = 0;                 ///< steps so far
  double cache_ = 0, context_ = 0;  ///< tokens that are held, and that are attended to
  Seconds now_{0};
  BatcherCounts counts_;
};

/// All of `requests` by `copies` engines, each of which takes equal runs of them: when the last
/// ends, and what all did together.
struct Generated {
  Seconds time;               ///< until the last sequence ends
  std::vector<Seconds> ends;  ///< of each request
  BatcherCounts counts;
  Seconds mean_copy;                ///< the mean over copies of when the last of theirs ends
  std::vector<CopyLoad> last = {};  ///< of the copy that ends last
};
Generated generate(const DecodeModel& model, const std::vector<Request>& requests,
                   std::size_t copies, double places, std::size_t most);

}  // namespace rehearse::inline rollout
