// What every strategy can be asked, whichever it is.
#include "strategy/strategy.hpp"

#include <fmt/format.h>

#include <map>

#include "base/error.hpp"
#include "strategy/choices.hpp"
#include "strategy/stage_plan.hpp"

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

std::string fsdp_name(const Fsdp& fsdp) {
  if (fsdp.stage3) return "zero 3";
  return (fsdp.per_parameter ? "fsdp2 " : "fsdp ") + name_of(kShardings, fsdp.sharding);
}

/// What keeps replicas equal, and how each is split.
std::string replicas_name(const Strategy& strategy) {
  std::string name = "ddp";
  if (const Fsdp* fsdp = fsdp_in(strategy)) name = fsdp_name(*fsdp);
  if (const Zero1* zero = zero_in(strategy))
    name = zero->deepspeed && zero->deepspeed->partitions_gradients ? "zero 2" : "zero 1";
  if (const ParameterServer* server = server_in(strategy)) name = server_name(*server);
  if (is_alone(strategy)) name = "alone";
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

Precision computes_in(const Fsdp& options, Precision precision) {
  if (!options.param_dtype) return computed_in(precision);
  const bool autocast = is_autocast(precision);
  switch (*options.param_dtype) {
    case Precision::bf16_pure:
      return autocast ? Precision::bf16_pure_autocast : Precision::bf16_pure;
    case Precision::fp16_pure:
      return autocast ? Precision::fp16_pure_autocast : Precision::fp16_pure;
    default:
      if (parameter_element(precision) == Bytes(4)) return precision;
      return autocast ? Precision::bf16 : Precision::fp32;
  }
}

Precision computes_in(const Strategy& strategy, Precision precision) {
  const Fsdp* fsdp = fsdp_in(strategy);
  return fsdp ? computes_in(*fsdp, precision) : computed_in(precision);
}

const std::vector<std::string>& strategy_names() {
  static const std::vector<std::string> names = {"ddp", "fsdp", "fsdp2", "zero", "ps", "local_sgd"};
  return names;
}

std::string describe_strategy(const std::string& name) {
  static const std::map<std::string, std::string> descriptions = {
      {"ddp", "replicated; gradients all-reduced in buckets while backward runs"},
      {"fsdp", "parameters sharded: full_shard, shard_grad_op or hybrid_shard, with prefetch"},
      {"fsdp2",
       "parameters sharded one by one (fully_shard), with or without reshard_after_forward"},
      {"zero", "stage 1 shards the optimizer, 2 also the gradients, 3 also the parameters"},
      {"ps", "parameter server: staleness 0 (BSP), a bound (SSP) or unbounded (ASP); local_steps"},
      {"local_sgd",
       "own steps of each replica, then averaged parameters; DiLoCo, over ddp, zero or fsdp"}};
  const auto found = descriptions.find(name);
  check(found != descriptions.end(), "every strategy has a description");
  return found->second;
}

const Ddp* ddp_in(const Strategy& strategy) { return std::get_if<Ddp>(&strategy.sync); }
const Zero1* zero_in(const Strategy& strategy) { return std::get_if<Zero1>(&strategy.sync); }
const Fsdp* fsdp_in(const Strategy& strategy) { return std::get_if<Fsdp>(&strategy.sync); }
const ParameterServer* server_in(const Strategy& strategy) {
  return std::get_if<ParameterServer>(&strategy.sync);
}
ParameterServer* server_in(Strategy& strategy) {
  return std::get_if<ParameterServer>(&strategy.sync);
}
bool is_alone(const Strategy& strategy) { return std::holds_alternative<Alone>(strategy.sync); }
bool is_one_layout(const Strategy& strategy) {
  return strategy.layout && !strategy.local_sgd && server_in(strategy) == nullptr;
}

int local_steps(const Strategy& strategy) {
  if (const auto* server = server_in(strategy)) return server->local_steps;
  return strategy.local_sgd ? strategy.local_sgd->period : 1;
}

int* micro_batches_of(Strategy& strategy) {
  if (strategy.layout) return &strategy.layout->micro_batches;
  if (auto* ddp = std::get_if<Ddp>(&strategy.sync)) return &ddp->gradient_accumulation;
  if (auto* fsdp = std::get_if<Fsdp>(&strategy.sync)) return &fsdp->gradient_accumulation;
  if (auto* zero = std::get_if<Zero1>(&strategy.sync)) return &zero->ddp.gradient_accumulation;
  return nullptr;
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
