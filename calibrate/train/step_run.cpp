#include "train/step_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "measure/host_threads.hpp"
#include "models/networks.hpp"
#include "train/ddp.hpp"
#include "train/fsdp.hpp"
#include "train/ps_worker.hpp"

namespace rehearse {
namespace {

using Clock = std::chrono::steady_clock;

/// So small that a batch that is repeated does not change what is measured.
constexpr double kLearningRate = 1e-9;

/// What one rank trains with.
struct Subject {
  std::unique_ptr<MeasuredDevice> device;
  Chain chain;
  Batch batch;
};

Subject make_subject(const RankEnvironment& self, const StepRunOptions& options) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  set_host_threads(std::max(1, cores / self.local_world_size));
  Subject subject;
  subject.device = make_device();
  torch::manual_seed(1);
  ModelShape shape;
  shape.image = options.image;
  subject.chain = build_chain(options.model, shape);
  const torch::Device device = subject.device->torch_device();
  move_to(subject.chain, device);
  torch::manual_seed(static_cast<std::uint64_t>(100 + self.rank));
  subject.batch = random_batch(subject.chain.input, options.batch, device);
  return subject;
}

RankSteps empty_record(const RankEnvironment& self, const Subject& subject) {
  RankSteps record;
  record.rank = self.rank;
  record.device = subject.device->identity().name;
  record.libtorch = TORCH_VERSION;
  return record;
}

Seconds median(std::vector<Seconds> times) {
  check(!times.empty(), "a median of at least one step");
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

std::unique_ptr<Trainer> make_trainer(const StepRunOptions& options, const ProcessGroup& group,
                                      Subject& subject) {
  TrainerParts parts{
      subject.chain, group, subject.device.get(), [](std::vector<torch::Tensor> parameters) {
        return std::make_unique<torch::optim::SGD>(std::move(parameters), kLearningRate);
      }};
  if (options.strategy == "fsdp") return make_fsdp(std::move(parts));
  return make_ddp(std::move(parts));
}

RankSteps run_trainer(const RankEnvironment& self, const StepRunOptions& options,
                      Subject& subject) {
  const bool on_gpu = subject.device->torch_device().is_cuda();
  const ProcessGroup group =
      make_process_group(self, {on_gpu ? CommBackend::nccl : CommBackend::gloo, options.timeout});
  const auto trainer = make_trainer(options, group, subject);
  RankSteps result = empty_record(self, subject);
  std::vector<Seconds> waits;
  for (int k = 0; k < options.warmup + options.steps; ++k) {
    const auto begin = Clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(options.delay.value()));
    const StepRecord record = trainer->step({subject.batch});
    const Seconds whole(std::chrono::duration<double>(Clock::now() - begin).count());
    result.allocated_peak = std::max(result.allocated_peak, record.allocated_peak);
    result.last_loss = record.loss;
    if (k < options.warmup) continue;
    result.steps.push_back(whole);
    waits.push_back(record.waited);
    result.sent += record.wire.sent / options.steps;
    result.received += record.wire.received / options.steps;
  }
  result.waited = median(waits);
  leave(group);
  return result;
}

RankSteps run_worker(const RankEnvironment& self, const StepRunOptions& options, Subject& subject) {
  const auto loss = [&](std::uint64_t) { return forward_loss(subject.chain, subject.batch); };
  subject.device->reset_peak();
  const auto iterations = static_cast<std::uint64_t>(options.warmup + options.steps);
  const PsWorkerResult run = train_with_server(
      parameters(subject.chain), loss,
      {options.servers, static_cast<std::uint32_t>(self.rank), iterations, options.delay,
       Seconds(60), Seconds(std::chrono::duration<double>(options.timeout).count())});
  RankSteps result = empty_record(self, subject);
  const auto all = static_cast<double>(std::max<std::size_t>(run.steps.size(), 1));
  result.allocated_peak = subject.device->peak();
  result.sent = run.sent / all;
  result.received = run.received / all;
  if (!run.losses.empty()) result.last_loss = run.losses.back();
  std::vector<Seconds> waits;
  for (const PsStep& step : run.steps) {
    if (std::cmp_less(step.iteration, options.warmup)) continue;
    result.steps.push_back(step.total());
    waits.push_back(step.pull);
  }
  if (waits.empty()) throw MissingError("error: a worker came too late for every measured round");
  result.waited = median(waits);
  return result;
}

}  // namespace

RankSteps run_steps(const RankEnvironment& self, const StepRunOptions& options) {
  try {
    Subject subject = make_subject(self, options);
    return options.servers.empty() ? run_trainer(self, options, subject)
                                   : run_worker(self, options, subject);
  } catch (const c10::OutOfMemoryError&) {
    throw MissingError(fmt::format(
        "error: batch {} of {} under {} does not fit into the device's memory\nremedy: a "
        "smaller --batch, or fewer ranks that share a GPU",
        options.batch, options.model, options.strategy));
  }
}

}  // namespace rehearse
