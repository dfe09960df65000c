#include "rollout/lag.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace rehearse::inline rollout {
namespace {

/// What one step of the trainer was.
struct StepRecord {
  Seconds end, trainer_waits, generator_waits;
  std::vector<double> ages;  ///< share of trajectories by age

  void count(std::int64_t age, double share) {
    const auto at = static_cast<std::size_t>(age);
    if (ages.size() <= at) ages.resize(at + 1);
    ages[at] += share;
  }
  double mean_age() const {
    double sum = 0;
    for (std::size_t age = 0; age < ages.size(); ++age) sum += static_cast<double>(age) * ages[age];
    return sum;
  }
};

/// Steps one after the other, until they are steady.
class Steps {
 public:
  explicit Steps(double limit) : window_(static_cast<std::size_t>(std::ceil(limit)) + 4) {}

  void add(StepRecord step) { all_.push_back(std::move(step)); }

  bool settled() const {
    constexpr std::size_t kMostWindows = 60;
    constexpr double kSame = 0.005;
    if (all_.size() % window_ != 0 || all_.size() < 3 * window_) return false;
    if (all_.size() >= kMostWindows * window_) return true;
    const double before = age(2), now = age(1);
    const Seconds step_before = step(2), step_now = step(1);
    const auto same = [](double a, double b, double of) { return std::abs(a - b) <= kSame * of; };
    return same(before, now, std::max(1.0, now)) &&
           same(step_before.value(), step_now.value(), step_now.value());
  }

  /// The means of the last two windows.
  LagRun run() const {
    LagRun run;
    run.steps = static_cast<std::int64_t>(all_.size());
    const std::size_t first = all_.size() - 2 * window_;
    const double share = 1 / static_cast<double>(2 * window_);
    run.step = share * (all_.back().end - all_[first - 1].end);
    for (std::size_t k = first; k < all_.size(); ++k) {
      const StepRecord& one = all_[k];
      run.trainer_waits += share * one.trainer_waits;
      run.generator_waits += share * one.generator_waits;
      run.mean_age += share * one.mean_age();
      run.ages.resize(std::max(run.ages.size(), one.ages.size()));
      for (std::size_t age = 0; age < one.ages.size(); ++age)
        run.ages[age] += share * one.ages[age];
    }
    run.most_age = static_cast<double>(run.ages.size()) - 1;
    return run;
  }

 private:
  /// Of the last window, or of the one before it.
  double age(std::size_t back) const {
    double sum = 0;
    for (std::size_t i = 0; i < window_; ++i)
      sum += all_[all_.size() - back * window_ + i].mean_age();
    return sum / static_cast<double>(window_);
  }
  Seconds step(std::size_t back) const {
    const std::size_t last = all_.size() - (back - 1) * window_ - 1;
    return (all_[last].end - all_[last - window_].end) / static_cast<double>(window_);
  }

  std::size_t window_;
  std::vector<StepRecord> all_;
};

}  // namespace

LagRun lag_by_batches(std::int64_t limit, const std::function<Seconds(std::int64_t)>& generation,
                      Seconds training, Seconds refit) {
  Steps steps(static_cast<double>(limit));
  std::vector<Seconds> weights{Seconds(0)};  // when those of update k are there
  Seconds generator_free{0}, trainer_free{0};
  std::size_t held = 0;  // updates that the generator's weights have behind them
  for (std::int64_t k = 0; !steps.settled(); ++k) {
    const auto needs = static_cast<std::size_t>(std::max<std::int64_t>(k - limit, 0));
    Seconds start = std::max(generator_free, weights[needs]);
    StepRecord step{
        .end = {}, .trainer_waits = {}, .generator_waits = start - generator_free, .ages = {}};
    // It takes the newest weights that there are, and generates nothing meanwhile.
    std::size_t newest = needs;
    while (newest + 1 < weights.size() && weights[newest + 1] <= start) ++newest;
    if (newest > held) start += refit;
    held = newest;
    const Seconds ended = start + generation(k);
    const Seconds train = std::max(ended, trainer_free);
    step.trainer_waits = train - trainer_free;
    generator_free = ended;
    trainer_free = train + training;
    weights.push_back(trainer_free);
    if (limit == 0) trainer_free += refit;
    step.end = trainer_free;
    step.count(k - static_cast<std::int64_t>(newest), 1);
    steps.add(std::move(step));
  }
  return steps.run();
}

namespace {

/// The generator's copies, with what they may start.
class InFlight {
 public:
  explicit InFlight(const Copies& copies) {
    for (std::size_t i = 0; i < copies.count; ++i)
      engines_.push_back({.batcher = Batcher(copies.model, copies.places, copies.most)});
  }

  struct Trajectory {
    Seconds at, started;
    std::int64_t step;  ///< whose request it was
  };

  /// These may start: a group together on the copy that has the fewest.
  void open(const std::vector<Request>& requests, std::int64_t step, Seconds now) {
    for (std::size_t i = 0; i < requests.size();) {
      Engine& to = *std::ranges::min_element(engines_, {}, &Engine::open);
      if (to.batcher.idle()) {
        waited_ +=
            std::max(now - to.batcher.now(), Seconds(0)) / static_cast<double>(engines_.size());
        to.batcher.wait_until(now);
      }
      for (const std::size_t group = requests[i].group;
           i < requests.size() && requests[i].group == group; ++i) {
        to.batcher.add(requests[i]);
        to.steps.push_back(step);
        ++to.open;
      }
    }
  }
  /// Every copy goes on until then, and stands still for the refit.
  void refit(Seconds time, Seconds now) {
    for (Engine& engine : engines_) {
      while (!engine.batcher.idle() && engine.batcher.now() < now) note(engine, now);
      if (!engine.batcher.idle()) engine.batcher.wait_until(engine.batcher.now() + time);
    }
    refits_.push_back(now);
  }
  /// Updates that the weights had behind them with which one began at this time.
  std::int64_t version(Seconds started) const {
    return std::ranges::upper_bound(refits_, started) - refits_.begin();
  }
  /// Goes on until so many have ended, of step `of` or of any; no refit comes before `ahead` after
  /// the time at which they are there. These, the first to end first.
  std::vector<Trajectory> take(std::size_t count, std::optional<std::int64_t> of, Seconds ahead) {
    std::vector<Trajectory> taken;
    for (;;) {
      taken.clear();
      for (const Trajectory& one : ended_)
        if (taken.size() < count && (!of || one.step == *of)) taken.push_back(one);
      if (taken.size() == count && !behind(taken.back().at)) break;
      go_on(ahead);
    }
    std::size_t left = count;
    std::erase_if(ended_, [&](const Trajectory& one) {
      if (left == 0 || (of && one.step != *of)) return false;
      --left;
      return true;
    });
    return taken;
  }
  Seconds waited() const { return waited_; }
  BatcherCounts counts() const {
    BatcherCounts all;
    for (const Engine& engine : engines_) all.add(engine.batcher.counts());
    return all;
  }

 private:
  struct Engine {
    Batcher batcher;
    std::vector<std::int64_t> steps = {};  ///< of each request, whose it was
    std::size_t open = 0;                  ///< requests that have not ended
  };

  /// The copy that is least far goes on to its next event.
  void go_on(Seconds ahead) {
    Engine* first = nullptr;
    for (Engine& engine : engines_)
      if (!engine.batcher.idle() && (!first || engine.batcher.now() < first->batcher.now()))
        first = &engine;
    check(first != nullptr, "a generator that has nothing to generate");
    note(*first, first->batcher.now() + ahead);
  }
  /// Goes on to a copy's next event; those that end with it stand in the order of their times.
  void note(Engine& engine, Seconds until) {
    for (const Batcher::Ended& one : engine.batcher.advance(until)) {
      const Trajectory ended{
          .at = one.at, .started = one.started, .step = engine.steps[one.request]};
      ended_.insert(std::ranges::upper_bound(ended_, ended.at, {}, &Trajectory::at), ended);
      --engine.open;
    }
  }
  /// Whether some copy has not yet come to this time.
  bool behind(Seconds time) const {
    return std::ranges::any_of(engines_, [&](const Engine& engine) {
      return !engine.batcher.idle() && engine.batcher.now() < time;
    });
  }

  std::vector<Engine> engines_;
  std::vector<Seconds> refits_;
  std::vector<Trajectory> ended_;
  Seconds waited_{0};
};

/// The requests of all steps as one stream.
class Stream {
 public:
  explicit Stream(const std::function<std::vector<Request>(std::int64_t)>& requests)
      : requests_(requests), now_(requests(0)) {}

  std::size_t of_step() const { return now_.size(); }
  /// Those up to the `end`th of the stream, in whole groups.
  void open_until(double end, InFlight& generator, Seconds now) {
    while (static_cast<double>(opened_) < end) {
      std::vector<Request> some;
      const auto step = static_cast<std::int64_t>(opened_ / of_step());
      if (step != step_) now_ = requests_(step_ = step);
      std::size_t at = opened_ % of_step();
      while (at < of_step() && static_cast<double>(opened_) < end) {
        const std::size_t group = now_[at].group;
        for (; at < of_step() && now_[at].group == group; ++at, ++opened_) some.push_back(now_[at]);
      }
      generator.open(some, step, now);
    }
  }

 private:
  const std::function<std::vector<Request>(std::int64_t)>& requests_;
  std::vector<Request> now_;
  std::int64_t step_ = 0;
  std::size_t opened_ = 0;
};

}  // namespace

LagRun lag_in_flight(const Copies& copies, const StalenessOptions& staleness, std::int64_t updates,
                     const std::function<std::vector<Request>(std::int64_t)>& requests,
                     Seconds training, Seconds refit) {
  Steps steps(staleness.limit);
  InFlight generator(copies);
  Stream stream(requests);
  const std::size_t of_step = stream.of_step();
  const auto count = static_cast<double>(of_step);
  stream.open_until((1 + staleness.limit) * count, generator, Seconds(0));
  const std::int64_t parts = staleness.stream ? updates : 1;
  const Seconds part_time = training / static_cast<double>(parts);
  Seconds trainer_free{0}, waited{0};
  for (std::int64_t k = 0; !steps.settled(); ++k) {
    StepRecord step{};
    const std::optional<std::int64_t> of =
        staleness.take == TakeOrder::begun ? std::optional(k) : std::nullopt;
    for (std::int64_t part = 0; part < parts; ++part) {
      const auto share = static_cast<std::size_t>(parts), at = static_cast<std::size_t>(part);
      const std::size_t some = (at + 1) * of_step / share - at * of_step / share;
      const auto taken = generator.take(some, of, part_time);
      const Seconds train = std::max(taken.back().at, trainer_free);
      step.trainer_waits += train - trainer_free;
      for (const auto& one : taken) step.count(k - generator.version(one.started), 1 / count);
      trainer_free = train + part_time;
    }
    generator.refit(refit, trainer_free);
    // Weights that nobody may begin with before stand in the trainer's way.
    if (staleness.limit == 0) trainer_free += refit;
    stream.open_until((static_cast<double>(k) + 2 + staleness.limit) * count, generator,
                      trainer_free + (staleness.limit == 0 ? Seconds(0) : refit));
    step.end = trainer_free;
    step.generator_waits = generator.waited() - waited;
    waited = generator.waited();
    steps.add(std::move(step));
  }
  LagRun run = steps.run();
  run.counts = generator.counts();
  return run;
}

}  // namespace rehearse::inline rollout
