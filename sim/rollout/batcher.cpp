#include "rollout/batcher.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace rehearse::inline rollout {

void BatcherCounts::add(const BatcherCounts& other) {
  generated += other.generated;
  computed += other.computed;
  steps += other.steps;
  sequence_steps += other.sequence_steps;
  preemptions += other.preemptions;
  most_cache = std::max(most_cache, other.most_cache);
}

Batcher::Batcher(const DecodeModel& model, double places, std::size_t most)
    : model_(model), places_(places), most_(most) {}

void Batcher::add(const Request& request) {
  check(request.prompt + request.response <= places_, "a sequence that the cache cannot hold");
  waiting_.push_back({.request = requests_.size()});
  requests_.push_back(request);
  started_.push_back(Seconds(-1));
}

/// Tokens of the cache beside a prompt that others of its group hold already.
double Batcher::held(std::size_t request, double made) const {
  const Request& one = requests_[request];
  const auto users = group_users_.find(one.group);
  const bool shared = users != group_users_.end() && users->second > 0;
  return (shared ? 0 : one.prompt) + made;
}

/// One step in which sequences enter, with as many tokens as a step takes; false where none does.
bool Batcher::admit() {
  double tokens = 0, longest = 0;
  const std::size_t before = running_.size();
  while (!waiting_.empty() && running_.size() < most_) {
    const Waiting next = waiting_.front();
    const Request& request = requests_[next.request];
    const double own = held(next.request, next.made);
    const bool has_place = cache_ + own + static_cast<double>(running_.size()) + 1 <= places_;
    if (!has_place || (tokens > 0 && tokens + own > model_.engine().prefill_tokens)) break;
    waiting_.pop_front();
    tokens += own;
    longest = std::max(longest, own);
    cache_ += own;
    context_ += request.prompt + next.made;
    ++group_users_[request.group];
    if (started_[next.request] < Seconds(0)) started_[next.request] = now_;
    running_.push_back({.ends = step_ + request.response - next.made,
                        .request = next.request,
                        .since = step_,
                        .entered = next.made});
  }
  if (running_.size() == before) return false;
  counts_.computed += tokens;
  if (tokens == 0) return true;
  // A long prompt is cut into what a step takes; its sequences decode beside.
  const double parts = std::ceil(tokens / model_.engine().prefill_tokens);
  const auto decoding = static_cast<double>(before);
  const double mean = before > 0 ? context_ / static_cast<double>(running_.size()) : longest;
  const bool alone = before == 0 || model_.engine().prompts_alone;
  const Seconds with = model_.step(alone ? 0 : decoding, mean, tokens / parts, longest).total();
  const Seconds without = alone ? Seconds(0) : model_.step(decoding, mean).total();
  // Those that decode beside make a token meanwhile, which the next steps would have made.
  now_ += parts * (with - without);
  return true;
}

/// The last to come gives its place, and waits before all others.
void Batcher::preempt() {
  check(running_.size() > 1, "a cache that holds no sequence");
  const Running last = running_.back();
  running_.pop_back();
  const double made = last.entered + step_ - last.since;
  leave(last);
  waiting_.push_front({.request = last.request, .made = made});
  ++counts_.preemptions;
}

void Batcher::leave(const Running& one) {
  const Request& request = requests_[one.request];
  const double made = one.entered + step_ - one.since;
  context_ -= request.prompt + made;
  cache_ -= made;
  if (--group_users_[request.group] == 0) cache_ -= request.prompt;
}

std::vector<Batcher::Ended> Batcher::advance(Seconds until) {
  while (admit()) {
  }
  const auto batch = static_cast<double>(running_.size());
  const auto first = std::ranges::min_element(running_, {}, &Running::ends);
  const double room = std::floor((places_ - cache_) / batch);
  if (room < 1) {
    preempt();
    return {};
  }
  double steps = std::min(first->ends - step_, room);
  if (until < kNever) {
    const Seconds one = model_.step(batch, context_ / batch).total();
    steps = std::min(steps, std::max(1.0, std::ceil((until - now_) / one)));
  }
  // Contexts grow by a token a step, so that the middle one is the mean.
  const double context = context_ / batch + (steps - 1) / 2;
  now_ += steps * model_.step(batch, context).total();
  step_ += steps;
  cache_ += steps * batch;
  context_ += steps * batch;
  counts_.steps += steps;
  counts_.sequence_steps += steps * batch;
  counts_.generated += steps * batch;
  counts_.most_cache = std::max(counts_.most_cache, cache_);
  std::vector<Ended> ended;
  std::erase_if(running_, [&](const Running& one) {
    if (one.ends > step_) return false;
    leave(one);
    ended.push_back({.request = one.request, .started = started_[one.request], .at = now_});
    return true;
  });
  return ended;
}

Generated generate(const DecodeModel& model, const std::vector<Request>& requests,
                   std::size_t copies, double places, std::size_t most) {
  Generated all{
      .time = {}, .ends = std::vector<Seconds>(requests.size()), .counts = {}, .mean_copy = {}};
  for (std::size_t copy = 0; copy < copies; ++copy) {
    const std::size_t first = copy * requests.size() / copies;
    const std::size_t end = (copy + 1) * requests.size() / copies;
    Batcher batcher(model, places, most);
    for (std::size_t i = first; i < end; ++i) batcher.add(requests[i]);
    std::vector<CopyLoad> load;
    while (!batcher.idle()) {
      for (const Batcher::Ended& one : batcher.advance()) all.ends[first + one.request] = one.at;
      load.push_back(batcher.load());
    }
    if (batcher.now() > all.time) {
      all.time = batcher.now();
      all.last = std::move(load);
    }
    all.mean_copy += batcher.now() / static_cast<double>(copies);
    all.counts.add(batcher.counts());
  }
  return all;
}

}  // namespace rehearse::inline rollout
