#include "train/fsdp.hpp"

#include <torch/csrc/autograd/utils/lambda_post_hook.h>

#include <deque>
#include <functional>
#include <unordered_map>

#include "base/error.hpp"
#include "train/flat_plan.hpp"
#include "train/flat_unit.hpp"
#include "train/gather_stream.hpp"
#include "train/start.hpp"

namespace rehearse::inline calibrate {
namespace {

using Phase = StepRecorder::Phase;
using Prefetch = FsdpOptions::Prefetch;
using TensorList = std::vector<torch::Tensor>;

/// A flat unit and how far its backward is.
struct Sharded {
  std::unique_ptr<FlatUnit> flat;
  std::size_t ready = 0;  ///< parameters whose gradient this backward has accumulated
  bool reduced = false;   ///< its gradients are on their way
  std::vector<GradientAccumulator> accumulators;
};

class FsdpTrainer : public Trainer {
 public:
  FsdpTrainer(TrainerParts parts, const FsdpOptions& options)
      : parts_(std::move(parts)),
        options_(options),
        recorder_(*parts_.device),
        gathers_(parts_.device->torch_device()),
        plan_(plan_flats(parts_.chain)) {
    start_as_rank_0(parts_.chain, parts_.group);
    for (std::size_t i = 0; i < plan_.flats.size(); ++i) shard(i);
    TensorList shards;
    for (const Sharded& unit : sharded_) shards.push_back(unit.flat->shard());
    optimizer_ = parts_.optimizer(shards);
  }

  StepRecord step(const std::vector<Batch>& micro_batches) override {
    recorder_.begin();
    gathers_.wait_for_current();  // the shards' update
    for (const Sharded& unit : sharded_) {
      torch::Tensor shard = unit.flat->shard();
      shard.mutable_grad() = torch::Tensor();
    }
    torch::Tensor sum = torch::zeros({}, parts_.device->torch_device());
    for (const Batch& batch : micro_batches) {
      torch::Tensor loss;
      recorder_.time(Phase::forward, [&] {
        loss = forward_units(batch) / static_cast<double>(micro_batches.size());
      });
      recorder_.time(Phase::backward, [&] { backward(loss); });
      sum += loss.detach();
    }
    recorder_.time(Phase::optimizer, [this] { optimizer_->step(); });
    recorder_.memory().end_part("optimizer");
    StepRecord record = recorder_.finish();
    record.loss = sum.item<double>();
    return record;
  }

  TensorList whole_parameters() override {
    return in_chain_order([](FlatUnit& flat) { return flat.gather_copies(flat.shard()); });
  }

  TensorList whole_gradients() override {
    return in_chain_order([](FlatUnit& flat) { return flat.gather_copies(flat.shard().grad()); });
  }

 private:
  void shard(std::size_t i) {
    TensorList parameters;
    for (const std::size_t unit : plan_.flats[i]) {
      for (const auto& parameter : parts_.chain.units[unit].module->parameters()) {
        parameters.push_back(parameter);
      }
    }
    const std::string& name = parts_.chain.units[plan_.flats[i].front()].name;
    Sharded& unit = sharded_.emplace_back();
    unit.flat = std::make_unique<FlatUnit>(name, parameters, parts_.group, gathers_, recorder_);
    for (const torch::Tensor& parameter : parameters) {
      auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
      accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
          [this, i](const TensorList& outputs, const TensorList&) {
            gradient_is_ready(i);
            return outputs;
          }));
      unit.accumulators.push_back(std::move(accumulator));
    }
  }

  FlatUnit* flat_of(std::size_t unit) {
    const auto i = plan_.flat_of[unit];
    return i ? sharded_[*i].flat.get() : nullptr;
  }

  /// A flat unit with several users is needed again soon after its first.
  bool reshards_after_forward(std::size_t unit) const {
    return options_.reshard_after_forward && plan_.flats[*plan_.flat_of[unit]].size() == 1;
  }

  torch::Tensor forward_units(const Batch& batch) {
    const auto& units = parts_.chain.units;
    torch::Tensor value = batch.input;
    for (std::size_t u = 0; u < units.size(); ++u) {
      FlatUnit* flat = flat_of(u);
      if (flat != nullptr) flat->finish_gather();
      if (options_.forward_prefetch) gather_next(u);
      value = units[u].module->forward(value);
      // The loss is part of the last unit.
      if (u + 1 == units.size()) value = parts_.chain.loss(value, batch.target);
      watch_backward(parts_.chain, u, value, recorder_.memory());
      if (flat != nullptr) {
        value.register_hook([this, u](const torch::Tensor&) { before_backward(u); });
        if (reshards_after_forward(u)) flat->reshard();
      }
      recorder_.memory().end_part("forward", units[u].name);
    }
    return value;
  }

  void gather_next(std::size_t unit) {
    for (std::size_t u = unit + 1; u < plan_.flat_of.size(); ++u) {
      if (FlatUnit* flat = flat_of(u)) return flat->start_gather();
    }
  }

  void gather_previous(std::size_t unit) {
    for (std::size_t u = unit; u-- > 0;) {
      if (FlatUnit* flat = flat_of(u)) return flat->start_gather();
    }
  }

  void backward(const torch::Tensor& loss) {
    for (Sharded& unit : sharded_) {
      unit.ready = 0;
      unit.reduced = false;
    }
    loss.backward();
    end_backward(parts_.chain, recorder_.memory());
    // A parameter that the loss does not reach holds its whole unit back.
    for (std::size_t i = 0; i < sharded_.size(); ++i) {
      if (!sharded_[i].reduced) finish_backward(i);
    }
    while (!reducing_.empty()) finish_oldest_reduce();
    recorder_.memory().end_part("reduction");
  }

  void before_backward(std::size_t unit) {
    flat_of(unit)->finish_gather();
    if (options_.backward_prefetch == Prefetch::backward_pre) gather_previous(unit);
  }

  void gradient_is_ready(std::size_t i) {
    Sharded& unit = sharded_[i];
    ++unit.ready;
    if (unit.ready < unit.flat->parameters().size()) return;
    if (options_.backward_prefetch == Prefetch::backward_post) {
      gather_previous(plan_.flats[i].front());
    }
    finish_backward(i);
  }

  /// Every node that reads a parameter has also computed its gradient: the whole is not needed now.
  void finish_backward(std::size_t i) {
    Sharded& unit = sharded_[i];
    unit.flat->reshard();
    if (options_.limit_reduce_scatters && !reducing_.empty()) finish_oldest_reduce();
    unit.flat->start_reduce();
    unit.reduced = true;
    reducing_.push_back(i);
  }

  void finish_oldest_reduce() {
    sharded_[reducing_.front()].flat->finish_reduce();
    reducing_.pop_front();
  }

  TensorList in_chain_order(const std::function<TensorList(FlatUnit&)>& copies_of) {
    std::unordered_map<const void*, torch::Tensor> copy_of;
    for (const Sharded& unit : sharded_) {
      const TensorList copies = copies_of(*unit.flat);
      for (std::size_t p = 0; p < copies.size(); ++p) {
        copy_of[unit.flat->parameters()[p].unsafeGetTensorImpl()] = copies[p];
      }
    }
    TensorList ordered;
    for (const torch::Tensor& parameter : parameters(parts_.chain)) {
      ordered.push_back(copy_of.at(parameter.unsafeGetTensorImpl()));
    }
    return ordered;
  }

  TrainerParts parts_;
  FsdpOptions options_;
  StepRecorder recorder_;
  GatherStream gathers_;
  FlatPlan plan_;
  std::vector<Sharded> sharded_;
  std::deque<std::size_t> reducing_;  ///< flat units whose reduce_scatter is under way
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace

std::unique_ptr<Trainer> make_fsdp(TrainerParts parts, const FsdpOptions& options) {
  return std::make_unique<FsdpTrainer>(std::move(parts), options);
}

}  // namespace rehearse::inline calibrate
