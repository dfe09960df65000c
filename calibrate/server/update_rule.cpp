#include "server/update_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.hpp"

namespace rehearse::inline calibrate {

UpdateRule::UpdateRule(const UpdateRuleOptions& options)
    : options_(options), workers_(static_cast<std::size_t>(std::max(options.workers, 0))) {
  if (options.workers < 1) throw InputError("error: a parameter server needs at least one worker");
  if (options.backup_workers < 0 || options.backup_workers >= options.workers) {
    throw InputError(fmt::format("error: {} backup workers of {} leave nobody to wait for",
                                 options.backup_workers, options.workers));
  }
  if (options.warmup_rounds > 0 && options.mode == ServerMode::synchronous)
    throw InputError("error: all rounds are synchronous; a warm-up is for bounded or asynchronous");
  if (options.backup_workers > 0 && options.mode != ServerMode::synchronous) {
    throw InputError("error: only synchronous rounds have backup workers");
  }
}

void UpdateRule::set_parameters(ElementType type, std::span<const std::byte> initial) {
  parameters_ = SgdParameters(type, initial, options_.sgd);
}

std::uint64_t UpdateRule::slowest() const {
  auto fewest = std::numeric_limits<std::uint64_t>::max();
  for (const Worker& worker : workers_) {
    if (!worker.finished) fewest = std::min(fewest, worker.pushed);
  }
  return fewest;
}

bool UpdateRule::in_rounds() const {
  return options_.mode == ServerMode::synchronous || version_ < options_.warmup_rounds;
}

std::shared_ptr<const std::vector<std::byte>> UpdateRule::read(std::size_t worker) {
  auto now = parameters_.snapshot();
  if (options_.sgd.delay_compensation != 0) workers_.at(worker).read = now;
  return now;
}

bool UpdateRule::may_read(std::size_t worker) const {
  const std::uint64_t own = workers_.at(worker).pushed;
  if (in_rounds()) return version_ >= own;
  if (options_.mode == ServerMode::asynchronous) return true;
  const std::uint64_t fewest = slowest();
  return own <= fewest || own - fewest <= options_.staleness;
}

std::uint64_t UpdateRule::next_iteration(std::size_t worker) const {
  return in_rounds() ? version_ : workers_.at(worker).pushed;
}

void UpdateRule::push(Push push, Seconds now) {
  Worker& worker = workers_.at(push.worker);
  if (push.iteration < worker.pushed || push.version_read > version_) {
    throw MissingError(fmt::format("error: worker {} pushed iteration {} of version {} out of turn",
                                   push.worker, push.iteration, push.version_read));
  }
  worker.pushed = push.iteration + 1;
  if (!in_rounds()) {
    std::vector<Push> one;
    one.push_back(std::move(push));
    apply(one, now);
    return;
  }
  if (push.iteration < version_) {
    ++dropped_;
    return;
  }
  round_.push_back(std::move(push));
  if (std::cmp_less(round_.size(), round_size())) return;
  // By worker and not by arrival: the sum's rounding, and so the run, is the same each time.
  std::sort(round_.begin(), round_.end(),
            [](const Push& a, const Push& b) { return a.worker < b.worker; });
  apply(round_, now);
  round_.clear();
}

void UpdateRule::apply(std::vector<Push>& pushes, Seconds now) {
  std::vector<StaleGradient> gradients;
  for (const Push& push : pushes) {
    StaleGradient gradient{push.gradient, version_ - push.version_read};
    if (const auto& read = workers_[push.worker].read) gradient.read = *read;
    gradients.push_back(gradient);
  }
  parameters_.apply(gradients);
  for (const Push& push : pushes) {
    log_.push_back({static_cast<std::uint32_t>(push.worker), push.iteration, push.version_read,
                    version_, now});
  }
  ++version_;
}

void UpdateRule::finish(std::size_t worker) { workers_.at(worker).finished = true; }

std::optional<std::string> UpdateRule::reason_stuck() const {
  if (!in_rounds()) return std::nullopt;
  const auto in_round = [&](std::size_t worker) {
    return std::any_of(round_.begin(), round_.end(),
                       [&](const Push& push) { return push.worker == worker; });
  };
  int able = 0;
  for (std::size_t w = 0; w < workers_.size(); ++w) able += !workers_[w].finished || in_round(w);
  if (able >= round_size()) return std::nullopt;
  return fmt::format("round {} waits for {} workers, of which only {} are left", version_,
                     round_size(), able);
}

}  // namespace rehearse::inline calibrate
