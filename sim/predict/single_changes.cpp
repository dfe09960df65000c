#include "predict/single_changes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/quoting.hpp"
#include "config/draft.hpp"
#include "strategy/sharded_parameters.hpp"

namespace rehearse::inline prediction {
namespace {

/// `{ddp: {bucket_cap_mb: 25}}`, to be written again with some of its options changed. What stands
/// beside a kind of strategy stays as it is.
class NamedOptions {
 public:
  explicit NamedOptions(const Value& value) : beside_(Draft::of(value)) {
    name_ = beside_.entries().front().first;
    for (const std::string& kind : strategy_names())
      if (beside_.has(kind)) name_ = kind;
    if (!beside_.at(name_).is_map()) name_ = "ddp";  // degrees of 1 alone
    options_ = beside_.at(name_);
    beside_.erase(name_);
  }
  explicit NamedOptions(std::string name) : name_(std::move(name)) {}

  NamedOptions as(const std::string& name) const {
    NamedOptions other = *this;
    other.name_ = name;
    return other;
  }
  NamedOptions with(const std::string& key, const Draft& value) const {
    NamedOptions other = without({key});
    other.options_.entry(key, value);
    return other;
  }
  NamedOptions without(const std::vector<std::string>& keys) const {
    NamedOptions other = *this;
    for (const std::string& key : keys) other.options_.erase(key);
    return other;
  }
  NamedOptions only(const std::vector<std::string>& keys) const {
    NamedOptions other = *this;
    for (const auto& [key, value] : options_.entries())
      if (std::ranges::count(keys, key) == 0) other.options_.erase(key);
    return other;
  }
  std::string text() const {
    Draft all = Draft::map({{name_, options_}});
    for (const auto& [key, value] : beside_.entries()) all.entry(key, value);
    return all.flow();
  }

 private:
  std::string name_;
  Draft beside_, options_;
};

/// Whether the loss is a kernel that keeps no logits, or one piece of them at a time.
bool keeps_no_logits(Map& model) {
  const std::optional<Value> loss = model.optional("loss");
  return loss && (!loss->is_scalar() || loss->shown() == "fused");
}

class Changes {
 public:
  Changes(const Document& document, const Scenario& scenario)
      : scenario_(scenario), root_(document.root().as_map()) {
    if (is_one_layout(scenario.strategy)) {
      add_replicas(NamedOptions(root_.require("strategy")));
      add_layout(*scenario.strategy.layout);
      add_checkpointing();
      add_micro_batch(*scenario.strategy.layout);
    } else {
      const NamedOptions strategy(root_.require("strategy"));
      add_strategies(strategy);
      add_checkpointing();
      add_batch(strategy);
    }
    add_model();
    add_optimizer();
    if (!scenario.allocator.expandable_segments && device_of(scenario) == TapeDevice::cuda)
      add("expandable_segments", "memory.allocator.expandable_segments=true");
    if (!scenario.run.set_to_none) add("zero_grad sets to none", "run.set_to_none=true");
  }

  std::vector<SingleChange> all;

 private:
  static constexpr bool kTrainsOtherwise = true;

  void add(const std::string& change, const std::string& assignment,
           bool changes_training = false) {
    all.push_back({change, {{assignment}}, changes_training});
  }
  void add_strategy_change(const std::string& change, const NamedOptions& strategy) {
    add(change, "strategy=" + strategy.text());
  }

  using Sharding = TorchFsdp1::Sharding;
  void add_sharding(const NamedOptions& fsdp, Sharding beyond) {
    if (beyond != Sharding::shard_grad_op)
      add_strategy_change("FSDP shard_grad_op (ZeRO-2)", fsdp.with("sharding", "shard_grad_op"));
    add_strategy_change("FSDP full_shard (ZeRO-3)", fsdp.with("sharding", "full_shard"));
  }
  static NamedOptions as_fsdp(const NamedOptions& ddp) {
    return ddp.as("fsdp").only({"gradient_accumulation", "algorithm"});
  }
  void add_replicated(const TorchDdp& options, const NamedOptions& strategy) {
    if (!options.gradient_as_bucket_view)
      add_strategy_change("gradient_as_bucket_view",
                          strategy.with("gradient_as_bucket_view", true));
    add_sharding(as_fsdp(strategy), Sharding::hybrid_shard);
    add_strategy_change("FSDP full_shard with cpu_offload",
                        as_fsdp(strategy).with("cpu_offload", true));
  }
  /// Of DeepSpeed, which has no other words.
  void add_stages(int first, const NamedOptions& strategy) {
    for (int stage = first; stage <= 3; ++stage)
      add_strategy_change(
          fmt::format("ZeRO-{}", stage),
          strategy.only({"gradient_accumulation", "algorithm"}).with("stage", stage));
  }
  bool is_run_by(const std::string& framework) const {
    return scenario_.framework.name == framework;
  }
  void add_strategies(const NamedOptions& strategy) {
    const Strategy& now = scenario_.strategy;
    if (now.local_sgd) return;
    if (const auto* ddp = sync_in<TorchDdp>(now)) add_strategy(*ddp, strategy);
    if (sync_in<DeepspeedAllreduce>(now) != nullptr)
      add_strategy_change("ZeRO-1", strategy.as("zero").with("stage", "1"));
    if (const auto* zero = sync_in<DeepspeedBuckets>(now))
      add_stages(zero->partitions_gradients ? 3 : 2, strategy);
    if (const auto sharded = sharded_in(now)) add_to_shards(*sharded, strategy);
    if (const auto* fsdp = sync_in<TorchFsdp1>(now)) add_hooks(*fsdp, strategy);
  }
  void add_strategy(const TorchDdp& options, const NamedOptions& strategy) {
    if (is_run_by("torchtitan"))
      return add_strategy_change("FSDP2",
                                 strategy.as("fsdp2").only({"gradient_accumulation", "algorithm"}));
    if (!options.zero_redundancy_optimizer)
      add_strategy_change("ZeRO-1", strategy.as("zero").with("stage", "1"));
    add_replicated(options, strategy);
  }
  /// Megatron-LM has a distributed optimizer, and takes PyTorch's FSDP2.
  void add_replicas(const NamedOptions& strategy) {
    const auto* megatron = sync_in<MegatronDdp>(scenario_.strategy);
    if (megatron == nullptr) return;
    if (!megatron->use_distributed_optimizer)
      add_strategy_change("ZeRO-1", strategy.as("zero").with("stage", "1"));
    if (scenario_.strategy.layout->mesh.pipeline == 1)
      add_strategy_change("FSDP2",
                          strategy.as("fsdp2").only({"gradient_accumulation", "algorithm"}));
  }
  /// Twice as much as `now`, and so on.
  static std::vector<int> degrees_to(int most, int now) {
    std::vector<int> all;
    for (int degree = 2 * now; degree <= most; degree *= 2) all.push_back(degree);
    return all;
  }
  void add_to_shards(const ShardedParameters& options, const NamedOptions& strategy) {
    if (options.adds_to_views()) {
      if (options.gathers_once)
        add_strategy_change("optim_grads_params",
                            strategy.with("data_parallel_sharding_strategy", "optim_grads_params"));
      return;
    }
    if (options.keeps_tensors()) {
      if (options.sharding == Sharding::shard_grad_op)
        add_strategy_change("reshard_after_forward", strategy.with("reshard_after_forward", true));
    } else if (options.sharding != Sharding::full_shard) {
      add_sharding(strategy.as("fsdp").without({"stage", "shard_group"}), options.sharding);
    }
    if (!options.param_dtype && parameter_element(scenario_.precision) == Bytes(4))
      all.push_back({"FSDP MixedPrecision in bf16",
                     {{"strategy=" + strategy.with("param_dtype", "bf16").text()}},
                     kTrainsOtherwise});
    if (!options.cpu_offload)
      add_strategy_change("cpu_offload", strategy.with("cpu_offload", true));
  }
  void add_hooks(const TorchFsdp1& options, const NamedOptions& strategy) {
    if (options.wrap == TorchFsdp1::Wrap::model || options.wrap == TorchFsdp1::Wrap::size)
      add_strategy_change("wrapping block by block", strategy.with("wrap", "blocks"));
    if (options.backward_prefetch != TorchFsdp1::Prefetch::none)
      add_strategy_change("no backward prefetch", strategy.with("backward_prefetch", "none"));
    if (!options.limit_all_gathers)
      add_strategy_change("limit_all_gathers", strategy.with("limit_all_gathers", true));
  }
  /// More ranks to a replica of the model, by one axis, tensor and expert ranks up to a node; what
  /// its rules forbid is left out later.
  void add_layout(const Layout& layout) {
    const int node = scenario_.cluster.groups.front().node.gpus;
    for (const MeshAxis axis : {MeshAxis::pipeline, MeshAxis::tensor, MeshAxis::context}) {
      Layout larger = layout;
      int& degree = axis == MeshAxis::pipeline ? larger.mesh.pipeline
                    : axis == MeshAxis::tensor ? larger.mesh.tensor
                                               : larger.mesh.context;
      const int most = axis == MeshAxis::tensor ? std::max(node, 2 * degree) : 2 * degree;
      for (const int ranks : degrees_to(most, degree)) {
        degree = ranks;
        if (!mesh_on(larger, scenario_.cluster.gpu_count()) || layout.order) continue;
        add(fmt::format("{} parallelism of {}", to_string(axis), ranks),
            fmt::format("strategy.{}_parallel={}", to_string(axis), ranks));
      }
    }
    if (!scenario_.transformer || !scenario_.transformer->experts) return;
    for (const int ranks : degrees_to(std::max(node, 2 * layout.mesh.expert), layout.mesh.expert))
      add(fmt::format("expert parallelism of {}", ranks),
          fmt::format("strategy.expert_parallel={}", ranks));
  }
  void add_micro_batch(const Layout& layout) {
    const std::int64_t batch = scenario_.batch_per_gpu;
    if (batch % 2 != 0 || layout.order ||
        root_.require("strategy").as_map().has("micro_batch_size"))
      return;
    SingleChange& same = all.emplace_back();
    same.change = "the same global batch in more micro-batches";
    same.assignments.push_back(
        {fmt::format("model.batch_per_gpu={}", batch / 2),
         fmt::format("strategy.micro_batches={}", 2 * layout.micro_batches)});
  }

  void add_checkpointing() {
    const auto& chosen = scenario_.checkpointed;
    if (chosen.empty() && scenario_.model.units.size() > 1)
      add("activation checkpointing of every second unit",
          "model.activation_checkpointing={every: 2}");
    if (chosen.empty() || std::ranges::count(chosen, false) > 0)
      add("activation checkpointing of every unit", "model.activation_checkpointing=per_unit");
  }

  void add_batch(const NamedOptions& strategy) {
    const std::int64_t batch = scenario_.batch_per_gpu;
    if (batch == 1) return;
    all.push_back({"a smaller batch", {}, kTrainsOtherwise});
    const std::optional<int> micro = gradient_accumulation(scenario_.strategy);
    if (!micro || scenario_.strategy.local_sgd) return;
    const Map said = root_.require("strategy").as_map();
    if (said.has("micro_batches") || said.has("micro_batch_size")) return;
    SingleChange& same = all.emplace_back();
    same.change = "the same global batch in more micro-batches";
    for (std::int64_t parts = 2; parts <= batch; ++parts) {
      if (batch % parts != 0) continue;
      const std::string count = std::to_string(*micro * parts);
      same.assignments.push_back(
          {fmt::format("model.batch_per_gpu={}", batch / parts),
           "strategy=" + strategy.with("gradient_accumulation", count).text()});
    }
  }

  void add_model() {
    const Precision now = scenario_.precision;
    if (now == Precision::fp32 || now == Precision::tf32)
      add("precision bf16 (autocast)", "model.precision=bf16", kTrainsOtherwise);
    if (now != Precision::bf16_pure)
      add("precision bf16_pure", "model.precision=bf16_pure", kTrainsOtherwise);
    Map model = root_.require("model").as_map();
    if (!scenario_.shape.flash_attention) add("flash attention", "model.attention=sdpa");
    if (scenario_.model.compile == Compile::none) add("torch.compile", "model.compile=true");
    if (scenario_.transformer && !keeps_no_logits(model)) add("a fused loss", "model.loss=fused");
  }

  void add_optimizer() {
    const Optimizer& now = scenario_.optimizer;
    const std::string& name = optimizer_names().at(static_cast<std::size_t>(now.kind));
    if (has_fused_option(now.kind) && !now.fused) {
      const NamedOptions options =
          root_.has("optimizer") ? NamedOptions(root_.require("optimizer")) : NamedOptions(name);
      const NamedOptions bare = options.without({"foreach", "fused"});
      add("fused " + name, "optimizer=" + bare.with("fused", true).text());
      if (now.foreach)
        add(name + " without foreach", "optimizer=" + bare.with("foreach", false).text());
    }
    for (const OptimizerKind other : {OptimizerKind::sgd_momentum, OptimizerKind::sgd}) {
      if (optimizer_memory({.kind = other, .of = now.of}).states >= optimizer_memory(now).states)
        continue;
      const std::string& simpler = optimizer_names().at(static_cast<std::size_t>(other));
      add("optimizer " + simpler, fmt::format("optimizer={{{}: {{}}}}", simpler), kTrainsOtherwise);
    }
  }

  const Scenario& scenario_;
  Map root_;
};

}  // namespace

std::vector<SingleChange> single_changes(const Document& document, const Scenario& scenario) {
  return std::move(Changes(document, scenario).all);
}

std::string set_options(const std::vector<std::string>& assignments) {
  std::string text;
  for (const std::string& one : assignments)
    text += (text.empty() ? "--set " : " --set ") + shell_quoted(one);
  return text;
}

}  // namespace rehearse::inline prediction
