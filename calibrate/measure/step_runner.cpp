#include "measure/step_runner.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.hpp"
#include "measure/precision.hpp"

namespace rehearse::inline calibrate {
namespace {

/// Tracks live and peak bytes from one moment to the next.
class ByteTrack {
 public:
  explicit ByteTrack(MeasuredDevice& device) : device_(device), before_(device.live()) {
    device_.reset_peak();
  }
  struct Phase {
    Bytes kept;       ///< live now, less live at the phase's begin
    Bytes workspace;  ///< peak, less what lived at its begin or end
  };
  Phase next() {
    const Bytes after = device_.live();
    const Phase phase{after - before_, device_.peak() - std::max(before_, after)};
    before_ = after;
    device_.reset_peak();
    return phase;
  }

 private:
  MeasuredDevice& device_;
  Bytes before_;
};

}  // namespace

StepRunner::StepRunner(const Chain& chain, MeasuredDevice& device, Precision precision)
    : chain_(chain), device_(device), precision_(precision), parameters_(parameters(chain)) {
  if (precision == Precision::fp16) scaler_.emplace(device.torch_device());
}

void StepRunner::run_observed(const Batch& batch, const Observer& observer) {
  const int count = static_cast<int>(chain_.units.size());
  torch::Tensor value = batch.input;
  {
    const AutocastScope autocast(precision_, device_.torch_device());
    for (int i = 0; i < count; ++i) {
      observer.forward(i);
      value = chain_.units[static_cast<std::size_t>(i)].module->forward(value);
      if (i + 1 == count) break;
      value.register_hook([&observer, i](const torch::Tensor&) { observer.backward(i); });
    }
    value = chain_.loss(value, batch.target);
    if (scaler_) value = scaler_->scale(value);
    observer.forward(count);
  }
  observer.backward(count - 1);
  value.backward();
  observer.backward(-1);
}

UnitSamples StepRunner::time_units(const Batch& batch) {
  const std::size_t count = chain_.units.size();
  std::vector<std::size_t> entered(count + 1), left(count + 1);
  device_.forget_marks();
  zero_gradients(chain_);
  run_observed(
      batch, {.forward = [&](int i) { entered[static_cast<std::size_t>(i)] = device_.mark(); },
              .backward = [&](int i) { left[static_cast<std::size_t>(i) + 1] = device_.mark(); }});
  UnitSamples samples;
  for (std::size_t i = 0; i < count; ++i) {
    samples.forward.push_back(device_.between(entered[i], entered[i + 1]));
    samples.backward.push_back(device_.between(left[i + 1], left[i]));
  }
  return samples;
}

UnitBytes StepRunner::count_bytes(const Batch& batch) {
  UnitBytes bytes;
  bytes.saved.resize(chain_.units.size());
  bytes.workspace.resize(chain_.units.size());
  zero_gradients(chain_);
  ByteTrack track(device_);
  const int count = static_cast<int>(chain_.units.size());
  const auto forward = [&](int i) {
    const ByteTrack::Phase phase = track.next();
    if (i == 0) return;
    bytes.saved[static_cast<std::size_t>(i) - 1] = std::max(Bytes(0), phase.kept);
    bytes.workspace[static_cast<std::size_t>(i) - 1] = phase.workspace;
  };
  const auto backward = [&](int i) {
    const ByteTrack::Phase phase = track.next();
    if (i + 1 == count) return;
    Bytes& workspace = bytes.workspace[static_cast<std::size_t>(i) + 1];
    workspace = std::max(workspace, phase.workspace);
  };
  run_observed(batch, {.forward = forward, .backward = backward});
  return bytes;
}

UnitAllocations StepRunner::record_allocations(const Batch& batch) {
  const std::size_t count = chain_.units.size();
  // Entry i: until unit i begins, forward; until unit i - 1 begins, backward.
  std::vector<std::vector<AllocationEvent>> before(count + 1), after(count + 1);
  zero_gradients(chain_);
  AllocationRecording recording;
  run_observed(
      batch,
      {.forward = [&](int i) { before[static_cast<std::size_t>(i)] = recording.take(); },
       .backward = [&](int i) { after[static_cast<std::size_t>(i) + 1] = recording.take(); }});
  return {.forward = {before.begin() + 1, before.end()},
          .backward = {after.begin(), after.end() - 1}};
}

UnitOperators StepRunner::count_operators(const Batch& batch) {
  const std::size_t count = chain_.units.size();
  // Entry i: until unit i begins, forward; until unit i - 1 begins, backward.
  std::vector<OperatorTotals> before(count + 1), after(count + 1);
  zero_gradients(chain_);
  OperatorCounter counter;
  run_observed(
      batch, {.forward = [&](int i) { before[static_cast<std::size_t>(i)] = counter.take(); },
              .backward = [&](int i) { after[static_cast<std::size_t>(i) + 1] = counter.take(); }});
  return {.forward = {before.begin() + 1, before.end()},
          .backward = {after.begin(), after.end() - 1}};
}

UnitLaunches StepRunner::time_launches(const Batch& batch) {
  using Clock = std::chrono::steady_clock;
  const std::size_t count = chain_.units.size();
  UnitLaunches launches{std::vector<Seconds>(count), std::vector<Seconds>(count)};
  if (!device_.runs_behind()) return launches;
  Clock::time_point entered;
  const auto leave = [&](std::vector<Seconds>& times, std::size_t i) {
    const std::chrono::duration<double> time = Clock::now() - entered;
    if (i < count) times[i] = Seconds(time.count());
    device_.wait();
    entered = Clock::now();
  };
  zero_gradients(chain_);
  // Where no unit is left, as before the first one each way, i is no unit's number.
  run_observed(
      batch,
      {.forward = [&](int i) { leave(launches.forward, static_cast<std::size_t>(i) - 1); },
       .backward = [&](int i) { leave(launches.backward, static_cast<std::size_t>(i) + 1); }});
  return launches;
}

torch::Tensor StepRunner::loss_of(const Batch& batch) {
  const AutocastScope autocast(precision_, device_.torch_device());
  const torch::Tensor loss = forward_loss(chain_, batch);
  return scaler_ ? scaler_->scale(loss) : loss;
}

void StepRunner::update(TimedOptimizer& optimizer) {
  if (scaler_) return scaler_->step(optimizer, parameters_);
  optimizer.step();
}

void StepRunner::make_gradients(const Batch& batch) {
  zero_gradients(chain_);
  loss_of(batch).backward();
}

StepTimes StepRunner::time_whole(const Batch& batch, TimedOptimizer& optimizer) {
  device_.forget_marks();
  const std::size_t start = device_.mark();
  zero_gradients(chain_);
  const std::size_t cleared = device_.mark();
  torch::Tensor loss = loss_of(batch);
  const std::size_t forward = device_.mark();
  loss.backward();
  const std::size_t backward = device_.mark();
  update(optimizer);
  const std::size_t end = device_.mark();
  return {.forward = device_.between(cleared, forward),
          .backward = device_.between(forward, backward),
          .optimizer = device_.between(backward, end),
          .step = device_.between(start, end)};
}

Seconds StepRunner::time_optimizer(TimedOptimizer& optimizer) {
  device_.forget_marks();
  const std::size_t start = device_.mark();
  update(optimizer);
  return device_.between(start, device_.mark());
}

StepPeak StepRunner::count_peak(const Batch& batch, TimedOptimizer& optimizer) {
  zero_gradients(chain_);
  device_.release_cached();
  device_.reset_peak();
  loss_of(batch).backward();
  update(optimizer);
  return {device_.peak(), device_.reserved_peak()};
}

}  // namespace rehearse::inline calibrate
