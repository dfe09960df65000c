#include "train/step_recorder.hpp"

#include "base/error.hpp"

namespace rehearse::inline calibrate {
namespace {

Seconds& time_of(StepRecord& record, StepRecorder::Phase phase) {
  switch (phase) {
    case StepRecorder::Phase::forward:
      return record.forward;
    case StepRecorder::Phase::backward:
      return record.backward;
    case StepRecorder::Phase::optimizer:
      return record.optimizer;
    case StepRecorder::Phase::waiting:
      return record.waited;
  }
  throw InternalError("internal error: a phase without a time");
}

}  // namespace

void StepRecorder::begin() {
  device_.forget_marks();
  memory_.begin();
  intervals_.clear();
  collectives_.clear();
  wire_ = wire_bytes();
  begun_ = mark();
}

std::size_t StepRecorder::mark() {
  const std::lock_guard lock(mutex_);
  return device_.mark();
}

void StepRecorder::add(Phase phase, std::size_t from, std::size_t to) {
  intervals_.push_back({phase, from, to});
}

std::size_t StepRecorder::launch(CollectiveKind kind, std::string what, Bytes size) {
  const std::lock_guard lock(mutex_);
  collectives_.push_back({kind, std::move(what), size, device_.mark(), std::nullopt});
  return collectives_.size() - 1;
}

StepRecorder::Future StepRecorder::watch(std::size_t collective, const Future& future) {
  const auto note = [this, collective](c10::ivalue::Future& done) {
    const std::lock_guard lock(mutex_);
    collectives_[collective].done = device_.mark();
    return done.value();
  };
  return future->then(note, future->elementType());
}

std::size_t StepRecorder::launched() {
  const std::lock_guard lock(mutex_);
  return collectives_.size();
}

std::optional<std::size_t> StepRecorder::last_launch() {
  const std::lock_guard lock(mutex_);
  if (collectives_.empty()) return std::nullopt;
  return collectives_.back().launched;
}

StepRecord StepRecorder::finish() {
  const auto end = mark();
  StepRecord record;
  record.whole = device_.between(begun_, end);
  record.memory = memory_.finish();
  record.wire = wire_bytes() - wire_;
  for (const Interval& interval : intervals_) {
    time_of(record, interval.phase) += device_.between(interval.from, interval.to);
  }
  for (const Running& running : collectives_) {
    check(running.done.has_value(), "a collective outlived its step");
    record.collectives.push_back({.kind = running.kind,
                                  .what = running.what,
                                  .size = running.size,
                                  .launched = device_.between(begun_, running.launched),
                                  .done = device_.between(begun_, *running.done)});
  }
  return record;
}

}  // namespace rehearse::inline calibrate
