#include "rollout/lag.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearse::inline rollout {
namespace {

/// Steps before the steady ones.
std::int64_t warm_up(std::int64_t limit, std::int64_t steps) {
  return std::min(limit + 2, steps - 1);
}

void count_age(LagRun& run, std::int64_t age, double share) {
  const auto at = static_cast<std::size_t>(age);
  if (run.ages.size() <= at) run.ages.resize(at + 1);
  run.ages[at] += share;
  run.mean_age += static_cast<double>(age) * share;
  run.most_age = std::max(run.most_age, static_cast<double>(age));
}

}  // namespace

LagRun lag_by_batches(std::int64_t limit, std::int64_t steps,
                      const std::function<Seconds(std::int64_t)>& generation, Seconds training,
                      Seconds refit) {
  LagRun run;
  run.steps = steps;
  const std::int64_t first = warm_up(limit, steps);
  const auto counted = static_cast<double>(steps - first);
  std::vector<Seconds> weights{Seconds(0)};  // when those of update k are there
  Seconds generator_free{0}, trainer_free{0}, begun{0};
  std::size_t held = 0;  // updates that the generator's weights have behind them
  for (std::int64_t k = 0; k < steps; ++k) {
    if (k == first) begun = trainer_free;
    const auto needs = static_cast<std::size_t>(std::max<std::int64_t>(k - limit, 0));
    Seconds start = std::max(generator_free, weights[needs]);
    const Seconds generator_waited = start - generator_free;
    // It takes the newest weights that there are, and generates nothing meanwhile.
    std::size_t newest = needs;
    while (newest + 1 < weights.size() && weights[newest + 1] <= start) ++newest;
    if (newest > held) start += refit;
    held = newest;
    const Seconds ended = start + generation(k);
    const Seconds train = std::max(ended, trainer_free);
    const Seconds trainer_waited = train - trainer_free;
    generator_free = ended;
    trainer_free = train + training;
    weights.push_back(trainer_free);
    if (limit == 0) trainer_free += refit;
    if (k < first) continue;
    run.trainer_waits += trainer_waited / counted;
    run.generator_waits += generator_waited / counted;
    count_age(run, k - static_cast<std::int64_t>(newest), 1 / counted);
  }
  run.step = (trainer_free - begun) / counted;
  return run;
}

namespace {

/// The generator's copies, with what they may start.
class InFlight {
 public:
  InFlight(const DecodeModel& model, std::size_t copies, double places, std::size_t most)
      : copies_(copies) {
    for (std::size_t i = 0; i < copies; ++i) engines_.emplace_back(model, places, most);
  }

  struct Trajectory {
    Seconds at, started;
  };

  /// Those of another step may start, dealt out to copies in runs.
  void open(const std::vector<Request>& requests, Seconds now) {
    for (std::size_t copy = 0; copy < copies_; ++copy) {
      Batcher& engine = engines_[copy];
      if (engine.idle()) {
        waited_ += std::max(now - engine.now(), Seconds(0)) / static_cast<double>(copies_);
        engine.wait_until(now);
      }
      const std::size_t end = (copy + 1) * requests.size() / copies_;
      for (std::size_t i = copy * requests.size() / copies_; i < end; ++i) engine.add(requests[i]);
    }
  }
  /// Every copy goes on until then, and stands still for the refit.
  void refit(Seconds time, Seconds now) {
    for (Batcher& engine : engines_) {
      while (!engine.idle() && engine.now() < now) note(engine);
      if (!engine.idle()) engine.wait_until(engine.now() + time);
    }
    refits_.push_back(now);
  }
  /// Updates that the weights had behind them with which one began at this time.
  std::int64_t version(Seconds started) const {
    return std::ranges::upper_bound(refits_, started) - refits_.begin();
  }
  /// Goes on until so many have ended, and all whose weights are of `oldest` or before it; these go
  /// first, and then the first to end. When the last of them is there, and they.
  std::vector<Trajectory> take(std::size_t count, std::int64_t oldest) {
    while (ended_.size() < count || has_older(oldest)) go_on();
    std::ranges::stable_partition(
        ended_, [&](const Trajectory& one) { return version(one.started) <= oldest; });
    const auto last = [&] { return std::ranges::max(first(count), {}, &Trajectory::at).at; };
    while (behind(last())) {
      go_on();
      std::ranges::stable_partition(
          ended_, [&](const Trajectory& one) { return version(one.started) <= oldest; });
    }
    std::vector<Trajectory> taken = first(count);
    ended_.erase(ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(count));
    std::ranges::stable_sort(ended_, {}, &Trajectory::at);
    return taken;
  }
  Seconds waited() const { return waited_; }
  BatcherCounts counts() const {
    BatcherCounts all;
    for (const Batcher& engine : engines_) {
      const BatcherCounts& own = engine.counts();
      all.generated += own.generated;
      all.computed += own.computed;
      all.steps += own.steps;
      all.sequence_steps += own.sequence_steps;
      all.preemptions += own.preemptions;
      all.most_cache = std::max(all.most_cache, own.most_cache);
    }
    return all;
  }

 private:
  std::vector<Trajectory> first(std::size_t count) const {
    return {ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  bool has_older(std::int64_t oldest) const {
    return std::ranges::any_of(engines_, [&](const Batcher& engine) {
      const auto since = engine.oldest();
      return since && version(*since) <= oldest;
    });
  }
  /// The copy that is least far goes on to its next event.
  void go_on() {
    Batcher* first = nullptr;
    for (Batcher& engine : engines_)
      if (!engine.idle() && (!first || engine.now() < first->now())) first = &engine;
    check(first != nullptr, "a generator that has nothing to generate");
    note(*first);
  }
  /// Goes on to a copy's next event; those that end with it stand in the order of their times.
  void note(Batcher& engine) {
    for (const Batcher::Ended& one : engine.advance()) {
      const Trajectory ended{.at = one.at, .started = one.started};
      ended_.insert(std::ranges::upper_bound(ended_, ended.at, {}, &Trajectory::at), ended);
    }
  }
  /// Whether some copy has not yet come to this time.
  bool behind(Seconds time) const {
    return std::ranges::any_of(
        engines_, [&](const Batcher& engine) { return !engine.idle() && engine.now() < time; });
  }

  std::size_t copies_;
  std::vector<Batcher> engines_;
  std::vector<Seconds> refits_;
  std::vector<Trajectory> ended_;
  Seconds waited_{0};
};

}  // namespace

LagRun lag_in_flight(const DecodeModel& model, std::size_t copies, double places, std::size_t most,
                     std::int64_t limit, std::int64_t steps,
                     const std::function<std::vector<Request>(std::int64_t)>& requests,
                     Seconds training, Seconds refit) {
  LagRun run;
  run.steps = steps;
  const std::int64_t first = warm_up(limit, steps);
  const auto counted = static_cast<double>(steps - first);
  InFlight generator(model, copies, places, most);
  for (std::int64_t ahead = 0; ahead <= limit; ++ahead) generator.open(requests(ahead), Seconds(0));
  const std::size_t of_step = requests(0).size();
  Seconds trainer_free{0}, begun{0}, waited_before{0};
  for (std::int64_t k = 0; k < steps; ++k) {
    if (k == first) {
      begun = trainer_free;
      waited_before = generator.waited();
    }
    const auto taken = generator.take(of_step, k - limit);
    const Seconds there = std::ranges::max(taken, {}, [](const auto& one) { return one.at; }).at;
    const Seconds train = std::max(there, trainer_free);
    if (k >= first) run.trainer_waits += (train - trainer_free) / counted;
    for (const auto& one : taken)
      if (k >= first)
        count_age(run, k - generator.version(one.started),
                  1 / counted / static_cast<double>(of_step));
    trainer_free = train + training;
    generator.refit(refit, trainer_free);
    generator.open(requests(k + limit + 1), trainer_free + refit);
  }
  run.step = (trainer_free - begun) / counted;
  run.generator_waits = (generator.waited() - waited_before) / counted;
  run.counts = generator.counts();
  return run;
}

}  // namespace rehearse::inline rollout
