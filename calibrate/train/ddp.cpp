#include "train/ddp.hpp"

#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <cmath>
#include <optional>

#include "train/start.hpp"
#include "train/step_recorder.hpp"
#include "train/timed_group.hpp"

namespace rehearse::inline calibrate {
namespace {

using Phase = StepRecorder::Phase;

constexpr double kMebibyte = 1024.0 * 1024.0;

std::int64_t to_bytes(double mebibytes) { return std::llround(mebibytes * kMebibyte); }

std::vector<torch::Tensor> trained(const Chain& chain) {
  std::vector<torch::Tensor> result;
  for (const torch::Tensor& parameter : parameters(chain)) {
    if (parameter.requires_grad()) result.push_back(parameter);
  }
  return result;
}

class DdpTrainer : public Trainer {
 public:
  DdpTrainer(TrainerParts parts, const DdpOptions& options)
      : parts_(std::move(parts)), parameters_(trained(parts_.chain)), recorder_(*parts_.device) {
    start_as_rank_0(parts_.chain, parts_.group);
    for (std::size_t i = 0; i < parameters_.size(); ++i) mark_when_ready(i);
    reducer_ = make_reducer({.parameters = parameters_,
                             .first_bucket_bytes = to_bytes(options.first_bucket_mb),
                             .bucket_cap_bytes = to_bytes(options.bucket_cap_mb),
                             .gradient_as_bucket_view = options.gradient_as_bucket_view},
                            make_timed_group(parts_.group, recorder_));
    logger_ = std::make_shared<c10d::Logger>(reducer_);
    logger_->set_construction_data_and_log(parts_.chain.name, {}, -1, false, false, false);
    reducer_->set_logger(logger_);
    optimizer_ = parts_.optimizer(parameters_);
  }

  StepRecord step(const std::vector<Batch>& micro_batches) override {
    recorder_.begin();
    zero_gradients(parts_.chain);
    torch::Tensor loss = torch::zeros({}, parts_.device->torch_device());
    for (std::size_t i = 0; i < micro_batches.size(); ++i) {
      // The micro-batches before the last are within no_sync().
      loss += train_on(micro_batches[i], micro_batches.size(), i + 1 == micro_batches.size());
    }
    recorder_.time(Phase::optimizer, [this] { optimizer_->step(); });
    recorder_.memory().end_part("optimizer");
    StepRecord record = recorder_.finish();
    record.loss = loss.item<double>();
    for (const std::size_t ready : ready_) {
      record.gradient_ready.push_back(parts_.device->between(backward_begun_, ready));
    }
    return record;
  }

  std::vector<torch::Tensor> whole_parameters() override {
    std::vector<torch::Tensor> copies;
    for (const torch::Tensor& parameter : parameters_) copies.push_back(parameter.detach().clone());
    return copies;
  }

  std::vector<torch::Tensor> whole_gradients() override {
    std::vector<torch::Tensor> copies;
    for (const torch::Tensor& parameter : parameters_) copies.push_back(parameter.grad().clone());
    return copies;
  }

 private:
  /// Notes when a gradient is there, on the device's clock; the Reducer's own statistics are when
  /// the host has issued it. Before the Reducer exists, whose hook would come first otherwise.
  void mark_when_ready(std::size_t i) {
    auto accumulator = torch::autograd::impl::grad_accumulator(parameters_[i]);
    accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, i](const std::vector<torch::Tensor>& outputs, const std::vector<torch::Tensor>&) {
          ready_[i] = recorder_.mark();
          return outputs;
        }));
    accumulators_.push_back(std::move(accumulator));
  }

  /// Adds the micro-batch's share to the gradients; returns its share of the loss.
  torch::Tensor train_on(const Batch& batch, std::size_t micro_batches, bool synchronizes) {
    torch::Tensor loss;
    recorder_.time(Phase::forward, [&] {
      if (synchronizes) {
        logger_->set_runtime_stats_and_log();
        reducer_->prepare_for_forward();
      }
      reducer_->rebuild_buckets();
      loss = watched_loss(parts_.chain, batch, recorder_.memory()) /
             static_cast<double>(micro_batches);
    });
    const auto from = recorder_.mark();
    backward_begun_ = from;
    ready_.assign(parameters_.size(), from);
    // A gradient that is not announced here is only added up.
    if (synchronizes) reducer_->prepare_for_backward({});
    loss.backward();
    end_backward(parts_.chain, recorder_.memory());
    const auto to = recorder_.mark();
    recorder_.add(Phase::backward, from, to);
    // The last bucket is launched when the last gradient is there: from then on nothing computes.
    if (const auto last = recorder_.last_launch()) recorder_.add(Phase::waiting, *last, to);
    return loss.detach();
  }

  TrainerParts parts_;
  std::vector<torch::Tensor> parameters_;
  StepRecorder recorder_;
  std::vector<GradientAccumulator> accumulators_;
  std::size_t backward_begun_ = 0;
  std::vector<std::size_t> ready_;  ///< of the last backward, in the order of parameters
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace

std::unique_ptr<Trainer> make_ddp(TrainerParts parts, const DdpOptions& options) {
  return std::make_unique<DdpTrainer>(std::move(parts), options);
}

}  // namespace rehearse::inline calibrate
