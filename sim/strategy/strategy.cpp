// What every strategy can be asked, whichever it is.
#include "strategy/strategy.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "base/error.hpp"
#include "strategy/choices.hpp"
#include "strategy/server_host.hpp"
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
  if (ps.local_steps > 1) name += fmt::format(", {} local", ps.local_steps);
  if (ps.outer) name += ", outer sgd";
  if (ps.worker) name += degrees_of(*ps.worker);
  return name;
}

}  // namespace

std::string strategy_name(const Strategy& strategy) {
  struct Namer {
    std::string operator()(const Ddp&) const { return "ddp"; }
    std::string operator()(const Fsdp& fsdp) const {
      if (fsdp.stage3) return "zero 3";
      return (fsdp.per_parameter ? "fsdp2 " : "fsdp ") + name_of(kShardings, fsdp.sharding);
    }
    std::string operator()(const Zero1& zero) const {
      return zero.deepspeed && zero.deepspeed->partitions_gradients ? "zero 2" : "zero 1";
    }
    std::string operator()(const ParameterServer& ps) const { return server_name(ps); }
    std::string operator()(const Layout& layout) const {
      return std::visit(*this, layout.data) + degrees_of(layout);
    }
    std::string operator()(const LocalSgd& local) const {
      std::string name = fmt::format("{} {}", local.outer ? "diloco" : "local_sgd", local.period);
      if (local.fragments > 1) name += fmt::format(" in {} fragments", local.fragments);
      std::visit(
          [&](const auto& inner) {
            if constexpr (requires { (*this)(inner); }) name += ", " + (*this)(inner);
          },
          local.inner);
      return name;
    }
  };
  return std::visit(Namer{}, strategy);
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
  const auto* layout = inner_as<Layout>(strategy);
  const auto* fsdp = layout ? std::get_if<Fsdp>(&layout->data) : inner_as<Fsdp>(strategy);
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

const ParameterServer* server_in(const Strategy& strategy) {
  return std::get_if<ParameterServer>(&strategy);
}
const LocalSgd* local_sgd_in(const Strategy& strategy) { return std::get_if<LocalSgd>(&strategy); }

const Layout* layout_in(const Strategy& strategy) {
  const ParameterServer* const server = server_in(strategy);
  return server != nullptr && server->worker ? &*server->worker : inner_as<Layout>(strategy);
}
Layout* layout_in(Strategy& strategy) {
  return const_cast<Layout*>(layout_in(std::as_const(strategy)));  // NOLINT: it is not const
}
const Layout* own_layout_in(const Strategy& strategy) { return std::get_if<Layout>(&strategy); }
Layout* own_layout_in(Strategy& strategy) { return std::get_if<Layout>(&strategy); }

const Ddp* ddp_in(const Strategy& strategy) { return inner_as<Ddp>(strategy); }
const Ddp* ddp_in(const Layout& layout) { return std::get_if<Ddp>(&layout.data); }
const Zero1* zero_in(const Strategy& strategy) { return inner_as<Zero1>(strategy); }
const Zero1* zero_in(const Layout& layout) { return std::get_if<Zero1>(&layout.data); }
const Fsdp* fsdp_in(const Strategy& strategy) { return inner_as<Fsdp>(strategy); }
const Fsdp* fsdp_in(const Layout& layout) { return std::get_if<Fsdp>(&layout.data); }

int local_steps(const Strategy& strategy) {
  if (const auto* server = std::get_if<ParameterServer>(&strategy)) return server->local_steps;
  if (const auto* local = std::get_if<LocalSgd>(&strategy)) return local->period;
  return 1;
}

int* micro_batches_of(Strategy& strategy) {
  if (auto* ddp = inner_as<Ddp>(strategy)) return &ddp->gradient_accumulation;
  if (auto* fsdp = inner_as<Fsdp>(strategy)) return &fsdp->gradient_accumulation;
  if (auto* zero = inner_as<Zero1>(strategy)) return &zero->ddp.gradient_accumulation;
  if (auto* layout = layout_in(strategy)) return &layout->micro_batches;
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

Cluster layout_cluster(const Strategy& strategy, const Cluster& cluster) {
  const auto* local = std::get_if<LocalSgd>(&strategy);
  return local == nullptr ? cluster : cluster_of_replica(*local, cluster);
}

namespace {

/// Ranks whose gradients count in an iteration: backup workers' are dropped, not all workers need
/// take part, and some GPUs may serve.
double contributing_ranks(const Strategy& strategy, const Job& job, const Schedule& schedule) {
  const auto* server = std::get_if<ParameterServer>(&strategy);
  const auto* layout = inner_as<Layout>(strategy);
  const std::size_t sharing =
      layout == nullptr ? 1
                        : Mesh(layout->mesh).ranks() / static_cast<std::size_t>(layout->mesh.data);
  if (server == nullptr) return static_cast<double>(job.cluster.gpu_count() / sharing);
  if (server->sampled_workers > 0) return server->sampled_workers;
  const auto workers = static_cast<double>(worker_count(*server, job.cluster));
  const auto ranks = static_cast<double>(computing_ranks(schedule).size());
  return ranks * (workers - server->backup_workers) / workers;
}

}  // namespace

Schedule build_schedule(const Strategy& strategy, const Job& job) {
  Schedule schedule =
      std::visit([&job](const auto& options) { return build(options, job); }, strategy);
  if (!schedule.mesh) {
    schedule.samples_per_iteration =
        std::floor(contributing_ranks(strategy, job, schedule)) *
        static_cast<double>(job.batch_per_gpu * batches_per_iteration(strategy));
  }
  return schedule;
}

}  // namespace rehearse::inline strategy
