#include "engine/cores.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearse::inline engine {

/// Of a core, for each.
double Cores::share() const {
  const auto running = static_cast<double>(running_.size());
  const double others = cores_ > 1 ? std::min(1.0, (running - 1) / (cores_ - 1)) : 0;
  return std::min(1.0, cores_ / running) / (1 + (busy_ - 1) * others);
}

double Cores::left_of(const Running& running) const {
  return running.remaining * running.slowdown / share();
}

std::size_t Cores::next() const {
  const auto first = std::min_element(
      running_.begin(), running_.end(),
      [this](const Running& a, const Running& b) { return left_of(a) < left_of(b); });
  return static_cast<std::size_t>(first - running_.begin());
}

/// Brings what remains up to now, before the share or a slowdown changes.
void Cores::advance(double now) {
  const double elapsed = now - since_;
  const double ready = 1 - std::min(1.0, cores_ / static_cast<double>(running_.size()));
  for (Running& running : running_) {
    running.remaining = std::max(running.remaining - elapsed * share() / running.slowdown, 0.0);
    if (running.task.kind != Task::Kind::operation) continue;
    Stay& stay = stays_[running.task.of];
    stay.whole += elapsed;
    stay.ready += elapsed * ready;
  }
  since_ = now;
  ++version_;
}

void Cores::begin(Task task, double duration, double slowdown, double now) {
  advance(now);
  running_.push_back({.task = task, .remaining = duration, .slowdown = slowdown});
  if (task.kind == Task::Kind::operation && task.of >= stays_.size()) stays_.resize(task.of + 1);
}

void Cores::slow(Task task, double slowdown, double now) {
  advance(now);
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [task](const Running& running) { return running.task == task; });
  check(found != running_.end(), "a computation that is slowed down does not run");
  found->slowdown = slowdown;
}

double Cores::ready_share(std::uint32_t rank) const {
  if (rank >= stays_.size() || stays_[rank].whole <= 0) return 0;
  return stays_[rank].ready / stays_[rank].whole;
}

std::size_t Cores::operations() const {
  return static_cast<std::size_t>(std::count_if(
      running_.begin(), running_.end(),
      [](const Running& running) { return running.task.kind == Task::Kind::operation; }));
}

Cores::Task Cores::end_next(double now) {
  check(!idle(), "a computation ends on cores without one");
  const std::size_t ended = next();
  advance(now);
  const Task task = running_[ended].task;
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(ended));
  return task;
}

double Cores::next_end() const { return since_ + left_of(running_[next()]); }

}  // namespace rehearse::inline engine
