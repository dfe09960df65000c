// What every strategy can be asked, whichever it is.
#include "strategy/strategy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "strategy/choices.hpp"
#include "strategy/layout/stage_plan.hpp"
#include "strategy/sharded_parameters.hpp"

namespace rehearse::inline strategy {
namespace {

/// " tp2 pp4"
std::string degrees_of(const Layout& layout) {
  std::string name;
  for (const auto& [degree, axis] :
       {std::pair(layout.mesh.tensor, "tp"), std::pair(layout.mesh.context, "cp"),
        std::pair(layout.mesh.expert, "ep"), std::pair(layout.mesh.pipeline, "pp")})
    if (degree > 1) name += fmt::format(" {}{}", axis, degree);
  return name;
}

std::string server_name(const ParameterServer& ps) {
  std::string name = !ps.staleness         ? "ps asp"
                     : *ps.staleness == 0U ? "ps bsp"
                                           : fmt::format("ps ssp {}", *ps.staleness);
  if (ps.aggregate == ParameterServer::Aggregate::node) name += ", by node";
  if (ps.backup_workers > 0) name += fmt::format(", {} backup", ps.backup_workers);
  if (ps.sampled_workers > 0) name += fmt::format(", {} sampled", ps.sampled_workers);
  if (ps.warmup_rounds > 0) name += fmt::format(", {} warm-up", ps.warmup_rounds);
  if (ps.switch_share > 0) name += fmt::format(" after {:g} % in step", 100 * ps.switch_share);
  if (ps.local_steps > 1) name += fmt::format(", {} local", ps.local_steps);
  if (ps.outer) name += ", outer sgd";
  return name;
}

/// What keeps replicas equal, without the layout.
struct NameOf {
  std::string operator()(const Alone& /*options*/) const { return "alone"; }
  std::string operator()(const TorchDdp& options) const {
    return options.zero_redundancy_optimizer ? "zero 1" : "ddp";
  }
  std::string operator()(const Horovod& /*options*/) const { return "ddp"; }
  std::string operator()(const MegatronDdp& options) const {
    return options.use_distributed_optimizer ? "zero 1" : "ddp";
  }
  std::string operator()(const DeepspeedAllreduce& /*options*/) const { return "ddp"; }
  std::string operator()(const DeepspeedBuckets& options) const {
    return options.partitions_gradients ? "zero 2" : "zero 1";
  }
  std::string operator()(const TorchFsdp1& options) const {
    return "fsdp " + name_of(kShardings, options.sharding);
  }
  std::string operator()(const TorchFsdp2& options) const {
    return "fsdp2 " + name_of(kShardings, ShardedParameters(options).sharding);
  }
  std::string operator()(const MegatronFsdp& options) const {
    return "megatron_fsdp " + name_of(kMegatronShardings, options.sharding);
  }
  std::string operator()(const DeepspeedZero3& /*options*/) const { return "zero 3"; }
  std::string operator()(const ParameterServer& options) const { return server_name(options); }
};

std::string replicas_name(const Strategy& strategy) {
  const std::string name = std::visit(NameOf{}, strategy.sync);
  return strategy.layout ? name + degrees_of(*strategy.layout) : name;
}

}  // namespace

std::string strategy_name(const Strategy& strategy) {
  if (!strategy.local_sgd) return replicas_name(strategy);
  const LocalSgd& local = *strategy.local_sgd;
  std::string name = fmt::format("{} {}", local.outer ? "diloco" : "local_sgd", local.period);
  if (local.fragments > 1) name += fmt::format(" in {} fragments", local.fragments);
  return is_alone(strategy) ? name : name + ", " + replicas_name(strategy);
}

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names = {"ddp",  "fsdp", "fsdp2",    "megatron_fsdp",
                                                 "zero", "ps",   "local_sgd"};
  return names;
}

std::string describe_strategy(const std::string& name) {
  static const std::map<std::string, std::string> descriptions = {
      {"ddp", "Replicated; gradients are all-reduced in buckets while backward runs."},
      {"fsdp", "Parameters are sharded: full_shard, shard_grad_op or hybrid_shard, with prefetch."},
      {"fsdp2",
       "Parameters are sharded one by one (fully_shard), with or without reshard_after_forward."},
      {"megatron_fsdp",
       "Megatron-LM's own FSDP: layers as buffers, optim_grads or optim_grads_params."},
      {"zero", "ZeRO: stage 1 shards the optimizer, 2 also the gradients, 3 also the parameters."},
      {"ps", "Parameter server: staleness 0 (BSP), a bound (SSP) or unbounded (ASP); local_steps."},
      {"local_sgd",
       "Own steps of each replica, then averaged parameters; DiLoCo, over ddp, zero or fsdp."}};
  const auto found = descriptions.find(name);
  check(found != descriptions.end(), "every strategy has a description");
  return found->second;
}

const ParameterServer* server_in(const Strategy& strategy) {
  return std::get_if<ParameterServer>(&strategy.sync);
}
ParameterServer* server_in(Strategy& strategy) {
  return std::get_if<ParameterServer>(&strategy.sync);
}
bool is_alone(const Strategy& strategy) { return std::holds_alternative<Alone>(strategy.sync); }

bool shards_optimizer(const Strategy& strategy) {
  const auto* torch = sync_in<TorchDdp>(strategy);
  const auto* megatron = sync_in<MegatronDdp>(strategy);
  return (torch != nullptr && torch->zero_redundancy_optimizer) ||
         (megatron != nullptr && megatron->use_distributed_optimizer) ||
         sync_in<DeepspeedBuckets>(strategy) != nullptr;
}

bool shards_parameters(const Strategy& strategy) { return sharded_in(strategy).has_value(); }

bool is_replicated(const Strategy& strategy) {
  return !is_alone(strategy) && server_in(strategy) == nullptr && !shards_optimizer(strategy) &&
         !shards_parameters(strategy);
}

/// DeepSpeed's may go into buckets as they are made.
bool keeps_gradients(const Strategy& strategy) {
  const auto* zero = sync_in<DeepspeedBuckets>(strategy);
  return zero == nullptr || (!zero->partitions_gradients && !zero->overlap_comm);
}

std::string late_reduction(const Strategy& strategy) {
  if (const auto* zero = sync_in<DeepspeedBuckets>(strategy)) {
    const std::string type = zero->communicates_fp32 ? ", communication_data_type = fp32" : "";
    if (!zero->overlap_comm) return "strategy.zero.overlap_comm = false" + type;
    const bool pipelined = strategy.layout && strategy.layout->mesh.pipeline > 1;
    return pipelined ? "strategy.pipeline_parallel: DeepSpeed's engine" + type : "";
  }
  if (const auto* megatron = sync_in<MegatronDdp>(strategy))
    return megatron->overlap_grad_reduce         ? ""
           : megatron->use_distributed_optimizer ? "strategy.zero.overlap_grad_reduce = false"
                                                 : "strategy.ddp.overlap_grad_reduce = false";
  if (const auto* horovod = sync_in<Horovod>(strategy))
    return horovod->overlap_grad_reduce ? "" : "strategy.ddp.overlap_grad_reduce = false";
  return sync_in<DeepspeedAllreduce>(strategy) != nullptr ? "strategy.ddp: DeepSpeed's engine" : "";
}

bool is_megatron_fsdp(const Strategy& strategy) {
  return sync_in<MegatronFsdp>(strategy) != nullptr;
}

bool is_stage3(const Strategy& strategy) {
  const auto* zero = sync_in<DeepspeedZero3>(strategy);
  return zero != nullptr && !zero->cpu_offload;
}

bool steps_beside_backward(const Strategy& strategy) {
  const auto* fsdp2 = sync_in<TorchFsdp2>(strategy);
  const bool has_it = is_stage3(strategy) || (fsdp2 != nullptr && !fsdp2->cpu_offload);
  return has_it && !strategy.layout && !strategy.local_sgd;
}

bool steps_by_bucket(const Strategy& strategy) {
  const auto* horovod = sync_in<Horovod>(strategy);
  return horovod != nullptr && horovod->by_priority;
}

bool gathers_fp8(const Strategy& strategy) {
  const auto* megatron = sync_in<MegatronDdp>(strategy);
  return megatron != nullptr && megatron->fp8_param_gather;
}

bool gathers_fp4(const Strategy& strategy) {
  const auto* megatron = sync_in<MegatronDdp>(strategy);
  return megatron != nullptr && megatron->fp4_param_gather;
}

std::optional<Bytes> main_gradient_element(const Strategy& strategy, Precision precision) {
  if (is_alone(strategy) || shards_parameters(strategy)) return std::nullopt;
  const Bytes own = parameter_element(precision);
  const auto* megatron = sync_in<MegatronDdp>(strategy);
  if (megatron == nullptr) return own;
  const bool in_bf16 = precision == Precision::bf16_master || is_narrow(precision);
  return megatron->grad_reduce_in_fp32.value_or(in_bf16) ? std::max(own, Bytes(4)) : own;
}

bool is_one_layout(const Strategy& strategy) {
  return strategy.layout && !strategy.local_sgd && server_in(strategy) == nullptr;
}

Mesh mesh_of(const Strategy& strategy) { return strategy.layout.value_or(Layout{}).mesh; }

std::size_t replicas_on(const Strategy& strategy, const Cluster& cluster) {
  const std::size_t apart = replica_count(strategy, cluster);
  const auto mesh = mesh_on(strategy.layout.value_or(Layout{}), cluster.gpu_count() / apart);
  return apart * static_cast<std::size_t>(mesh ? mesh->data : 1);
}

int local_steps(const Strategy& strategy) {
  if (const auto* server = server_in(strategy)) return server->local_steps;
  return strategy.local_sgd ? strategy.local_sgd->period : 1;
}

int* micro_batches_of(Strategy& strategy) {
  if (strategy.layout) return &strategy.layout->micro_batches;
  return std::visit(
      [](auto& options) -> int* {
        if constexpr (requires { options.gradient_accumulation; })
          return &options.gradient_accumulation;
        return nullptr;
      },
      strategy.sync);
}

std::optional<int> gradient_accumulation(const Strategy& strategy) {
  const int* const count = micro_batches_of(const_cast<Strategy&>(strategy));  // NOLINT: only read
  return count == nullptr ? std::nullopt : std::optional(*count);
}

std::size_t Job::replicas() const { return stage ? stage->replicas : cluster.gpu_count(); }

std::int64_t batches_per_iteration(const Strategy& strategy) {
  return std::int64_t{gradient_accumulation(strategy).value_or(1)} * local_steps(strategy);
}

}  // namespace rehearse::inline strategy
