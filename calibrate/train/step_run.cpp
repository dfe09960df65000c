#include "train/step_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/percentile.hpp"
#include "comm/lost_peer.hpp"
#include "config/whole_file.hpp"
#include "data/samples.hpp"
#include "data/shard_order.hpp"
#include "measure/host_threads.hpp"
#include "measure/precision.hpp"
#include "measure/rank_device.hpp"
#include "models/networks.hpp"
#include "train/ps_worker.hpp"

namespace rehearse::inline calibrate {
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

bool keeps_allocations(const RankEnvironment& self, const StepRunOptions& options) {
  return self.rank == 0 && !options.allocations.empty();
}

void keep_allocations(MeasuredDevice& device) {
  if (!device.allocations()) {
    throw InputError(
        "error: --memory-snapshot: the CPU has no caching allocator\n"
        "remedy: leave it out, or train on a GPU; the report's memory says what every unit held");
  }
  device.record_allocations();
}

Subject make_subject(const RankEnvironment& self, const StepRunOptions& options) {
  const bool alone = !options.servers.empty();  // no collectives, and so no NCCL
  Subject subject;
  subject.device =
      make_rank_device(self, {.cpu = options.cpu, .shares_gpu = alone, .threads = options.threads});
  if (keeps_allocations(self, options)) keep_allocations(*subject.device);
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
  const DeviceIdentity identity = subject.device->identity();
  record.device = identity.name;
  record.allocator = identity.allocator;
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
  if (options.strategy == "fsdp") return make_fsdp(std::move(parts), options.fsdp);
  return make_ddp(std::move(parts), options.ddp);
}

RankSteps run_trainer(const RankEnvironment& self, const StepRunOptions& options,
                      Subject& subject) {
  const bool on_gpu = subject.device->torch_device().is_cuda();
  const ProcessGroup group =
      make_process_group(self, {on_gpu ? CommBackend::nccl : CommBackend::gloo, options.timeout});
  const auto trainer = make_trainer(options, group, subject);
  RankSteps result = empty_record(self, subject);
  const std::vector<Batch> micro_batches(static_cast<std::size_t>(options.micro_batches),
                                         subject.batch);
  std::vector<StepRecord> records;
  std::vector<Seconds> waits;
  for (int k = 0; k < options.warmup + options.steps; ++k) {
    const auto begin = Clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(options.delay.value()));
    const StepRecord record = trainer->step(micro_batches);
    const Seconds whole(std::chrono::duration<double>(Clock::now() - begin).count());
    result.allocated_peaks.push_back(record.memory.allocated_peak);
    result.memory = record.memory;
    result.last_loss = record.loss;
    options.progress(k + 1);
    if (k < options.warmup) continue;
    result.steps.push_back(whole);
    waits.push_back(record.waited);
    records.push_back(record);
    result.sent += record.wire.sent / options.steps;
    result.received += record.wire.received / options.steps;
  }
  result.waited = percentile(waits, 0.5);
  result.detail = detail_of(records);
  leave(group);
  return result;
}

/// The batches of the worker's shard of real data; nothing where there is none.
std::function<Batch(std::uint64_t)> data_batches(const RankEnvironment& self,
                                                 const StepRunOptions& options) {
  if (!options.data) return {};
  const auto order = std::make_shared<ShardOrder>(
      ShardOptions{.samples = options.data->train.count(),
                   .workers = static_cast<std::uint32_t>(self.world_size),
                   .worker = static_cast<std::uint32_t>(self.rank),
                   .batch = static_cast<std::size_t>(options.batch),
                   .seed = options.seed});
  return [order, data = options.data](std::uint64_t number) {
    return sample_batch(data->train, order->batch(number), data->name);
  };
}

std::map<std::uint64_t, double> losses_of(const PsWorkerResult& run) {
  std::map<std::uint64_t, double> losses;
  for (std::size_t i = 0; i < run.steps.size(); ++i) losses[run.steps[i].iteration] = run.losses[i];
  return losses;
}

RankSteps run_worker(const RankEnvironment& self, const StepRunOptions& options, Subject& subject) {
  int begun = 0;
  const auto batch_of = data_batches(self, options);
  MemoryWatch memory(*subject.device);
  const auto gradients = [&](std::uint64_t number) {
    options.progress(begun++);
    const Batch batch = batch_of ? batch_of(number) : subject.batch;
    const torch::Tensor loss = watched_loss(subject.chain, batch, memory);
    loss.backward();
    end_backward(subject.chain, memory);
    return loss.item<double>();  // on a GPU it waits for backward, too
  };
  const auto iterations = static_cast<std::uint64_t>(options.warmup + options.steps);
  const PsWorkerResult run = train_with_server(
      parameters(subject.chain), gradients,
      {.servers = options.servers,
       .worker = static_cast<std::uint32_t>(self.rank),
       .iterations = iterations,
       .delay = options.delay,
       .jitter = options.jitter,
       .seed = options.seed,
       .local = options.local,
       .reply_timeout = Seconds(std::chrono::duration<double>(options.timeout).count()),
       .memory = &memory});
  RankSteps result = empty_record(self, subject);
  const auto all = static_cast<double>(std::max<std::size_t>(run.steps.size(), 1));
  result.sent = run.sent / all;
  result.received = run.received / all;
  if (!run.losses.empty()) result.last_loss = run.losses.back();
  if (options.data) result.losses = losses_of(run);
  std::vector<Seconds> pulls, computations, pushes;
  for (const PsStep& step : run.steps) {
    result.allocated_peaks.push_back(step.memory.allocated_peak);
    result.memory = step.memory;
    if (std::cmp_less(step.iteration, options.warmup)) continue;
    result.steps.push_back(step.total());
    pulls.push_back(step.pull);
    computations.push_back(step.compute);
    pushes.push_back(step.push);
  }
  if (pulls.empty()) throw MissingError("error: a worker came too late for every measured round");
  result.waited = percentile(pulls, 0.5);
  result.detail.phases = {{"pull", percentile(pulls, 0.5)},
                          {"compute", percentile(computations, 0.5)},
                          {"push", percentile(pushes, 0.5)}};
  return result;
}

}  // namespace

RankSteps run_steps(const RankEnvironment& self, const StepRunOptions& options) {
  try {
    Subject subject = make_subject(self, options);
    RankSteps steps = !options.servers.empty()
                          ? run_worker(self, options, subject)
                          : with_peers(self, [&] { return run_trainer(self, options, subject); });
    if (keeps_allocations(self, options)) {
      write_whole_file(options.allocations, to_json(*subject.device->allocations()));
    }
    return steps;
  } catch (const c10::OutOfMemoryError&) {
    throw MissingError(fmt::format(
        "error: batch {} of {} under {} does not fit into the device's memory\nremedy: a "
        "smaller --batch, or fewer ranks that share a GPU",
        options.batch, options.model, options.strategy));
  }
}

}  // namespace rehearse::inline calibrate
