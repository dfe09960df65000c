#include "train/step_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "comm/lost_peer.hpp"
#include "data/image_batch.hpp"
#include "data/shard_order.hpp"
#include "measure/host_threads.hpp"
#include "measure/precision.hpp"
#include "measure/rank_device.hpp"
#include "models/networks.hpp"
#include "train/ddp.hpp"
#include "train/fsdp.hpp"
#include "train/ps_worker.hpp"

namespace rehearse {
namespace {

using Clock = std::chrono::steady_clock;

/// A unit whose forward runs under autocast; backward then runs in the types that it recorded.
class AutocastUnit : public UnitModule {
 public:
  AutocastUnit(std::shared_ptr<UnitModule> unit, Precision precision, torch::Device device)
      : unit_(register_module("unit", std::move(unit))), precision_(precision), device_(device) {}
  torch::Tensor forward(const torch::Tensor& input) override {
    const AutocastScope autocast(precision_, device_);
    return unit_->forward(input);
  }

 private:
  std::shared_ptr<UnitModule> unit_;
  Precision precision_;
  torch::Device device_;
};

/// The chain as it trains in that precision.
void train_in(Chain& chain, Precision precision, torch::Device device) {
  const std::string reason = unsupported(precision, device);
  if (!reason.empty()) throw InputError("error: --precision: " + reason);
  apply_precision(precision, chain);
  if (precision != Precision::bf16) return;
  for (ChainUnit& unit : chain.units)
    unit.module = std::make_shared<AutocastUnit>(unit.module, precision, device);
  chain.loss = [loss = chain.loss, precision, device](const torch::Tensor& output,
                                                      const torch::Tensor& target) {
    const AutocastScope autocast(precision, device);
    return loss(output, target);
  };
}

/// What one rank trains with.
struct Subject {
  std::unique_ptr<MeasuredDevice> device;
  Chain chain;
  Batch batch;
};

Subject make_subject(const RankEnvironment& self, const StepRunOptions& options) {
  const bool alone = !options.servers.empty();  // no collectives, and so no NCCL
  Subject subject;
  subject.device =
      make_rank_device(self, {.cpu = options.cpu, .shares_gpu = alone, .threads = options.threads});
  torch::manual_seed(options.seed);
  subject.chain = build_chain(options.model, options.shape);
  const torch::Device device = subject.device->torch_device();
  move_to(subject.chain, device);
  train_in(subject.chain, options.precision, device);
  torch::manual_seed(options.seed + 1000 * static_cast<std::uint64_t>(self.rank + 1));
  subject.batch =
      random_batch(subject.chain.input, options.batch, device, input_type(options.precision));
  return subject;
}

RankSteps empty_record(const RankEnvironment& self, const Subject& subject) {
  RankSteps record;
  record.rank = self.rank;
  record.device = subject.device->identity().name;
  record.libtorch = TORCH_VERSION;
  record.host_threads = host_threads();
  return record;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const StepRunOptions& options,
                                                        std::vector<torch::Tensor> parameters) {
  namespace optim = torch::optim;
  const double rate = options.learning_rate;
  if (options.optimizer == "adam") {
    return std::make_unique<optim::Adam>(std::move(parameters), optim::AdamOptions(rate));
  }
  if (options.optimizer == "adamw") {
    return std::make_unique<optim::AdamW>(std::move(parameters), optim::AdamWOptions(rate));
  }
  return std::make_unique<optim::SGD>(std::move(parameters),
                                      optim::SGDOptions(rate).momentum(options.momentum));
}

std::unique_ptr<Trainer> make_trainer(const StepRunOptions& options, const ProcessGroup& group,
                                      Subject& subject) {
  TrainerParts parts{subject.chain, group, subject.device.get(),
                     [&options](std::vector<torch::Tensor> parameters) {
                       return make_optimizer(options, std::move(parameters));
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
  std::vector<StepRecord> records;
  std::vector<Seconds> waits;
  for (int k = 0; k < options.warmup + options.steps; ++k) {
    const auto begin = Clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(options.delay.value()));
    const StepRecord record = trainer->step({subject.batch});
    const Seconds whole(std::chrono::duration<double>(Clock::now() - begin).count());
    result.allocated_peak = std::max(result.allocated_peak, record.allocated_peak);
    result.last_loss = record.loss;
    options.progress(k + 1);
    if (k < options.warmup) continue;
    result.steps.push_back(whole);
    waits.push_back(record.waited);
    records.push_back(record);
    result.sent += record.wire.sent / options.steps;
    result.received += record.wire.received / options.steps;
  }
  result.waited = median(waits);
  result.detail = detail_of(records);
  leave(group);
  return result;
}

/// The loss of a batch of the worker's shard of real data; nothing where there is none.
IterationLoss data_loss(const RankEnvironment& self, const StepRunOptions& options,
                        const Chain& chain) {
  if (!options.data) return {};
  const auto order = std::make_shared<ShardOrder>(
      ShardOptions{.samples = options.data->train.count(),
                   .workers = static_cast<std::uint32_t>(self.world_size),
                   .worker = static_cast<std::uint32_t>(self.rank),
                   .batch = static_cast<std::size_t>(options.batch),
                   .seed = options.seed});
  return [order, &chain, data = options.data](std::uint64_t number) {
    return forward_loss(chain, image_batch(data->train, order->batch(number), data->name));
  };
}

std::map<std::uint64_t, double> losses_of(const PsWorkerResult& run) {
  std::map<std::uint64_t, double> losses;
  for (std::size_t i = 0; i < run.steps.size(); ++i) losses[run.steps[i].iteration] = run.losses[i];
  return losses;
}

RankSteps run_worker(const RankEnvironment& self, const StepRunOptions& options, Subject& subject) {
  int begun = 0;
  auto samples = data_loss(self, options, subject.chain);
  const auto loss = [&](std::uint64_t batch) {
    options.progress(begun++);
    return samples ? samples(batch) : forward_loss(subject.chain, subject.batch);
  };
  subject.device->reset_peak();
  const auto iterations = static_cast<std::uint64_t>(options.warmup + options.steps);
  const PsWorkerResult run = train_with_server(
      parameters(subject.chain), loss,
      {.servers = options.servers,
       .worker = static_cast<std::uint32_t>(self.rank),
       .iterations = iterations,
       .delay = options.delay,
       .jitter = options.jitter,
       .seed = options.seed,
       .local = options.local,
       .reply_timeout = Seconds(std::chrono::duration<double>(options.timeout).count())});
  RankSteps result = empty_record(self, subject);
  const auto all = static_cast<double>(std::max<std::size_t>(run.steps.size(), 1));
  result.allocated_peak = subject.device->peak();
  result.sent = run.sent / all;
  result.received = run.received / all;
  if (!run.losses.empty()) result.last_loss = run.losses.back();
  if (options.data) result.losses = losses_of(run);
  std::vector<Seconds> pulls, computations, pushes;
  for (const PsStep& step : run.steps) {
    if (std::cmp_less(step.iteration, options.warmup)) continue;
    result.steps.push_back(step.total());
    pulls.push_back(step.pull);
    computations.push_back(step.compute);
    pushes.push_back(step.push);
  }
  if (pulls.empty()) throw MissingError("error: a worker came too late for every measured round");
  result.waited = median(pulls);
  result.detail.phases = {
      {"pull", median(pulls)}, {"compute", median(computations)}, {"push", median(pushes)}};
  return result;
}

}  // namespace

RankSteps run_steps(const RankEnvironment& self, const StepRunOptions& options) {
  try {
    Subject subject = make_subject(self, options);
    if (!options.servers.empty()) return run_worker(self, options, subject);
    return with_peers(self, [&] { return run_trainer(self, options, subject); });
  } catch (const c10::OutOfMemoryError&) {
    throw MissingError(fmt::format(
        "error: batch {} of {} under {} does not fit into the device's memory\nremedy: a "
        "smaller --batch, or fewer ranks that share a GPU",
        options.batch, options.model, options.strategy));
  }
}

}  // namespace rehearse
