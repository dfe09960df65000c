#include "strategy/optimizer_step.hpp"

#include <algorithm>

#include "strategy/layout/stage_plan.hpp"

namespace rehearse::inline strategy {

double host_slowdown(const Node& node) {
  return node.gpu.memory_bandwidth / node.pcie.host_bandwidth * node.gpus;
}

void launch_optimizer(ProgramBuilder& builder, std::vector<After>& ready) {
  const Seconds time = builder.costs().optimizer_launch;
  if (time <= Seconds(0)) return;
  if (const auto launched = builder.launch(Verb::optimizer, "", time)) ready.push_back({*launched});
}

OpId optimizer(ProgramBuilder& builder, Seconds duration, std::vector<After> after) {
  builder.add({.verb = Verb::optimizer,
               .phase = Phase::optimizer,
               .lane = builder.compute_lane(),
               .work = Compute{.duration = duration, .step = builder.training_step()},
               .after = std::move(after)});
  return builder.last();
}

void optimizer_of(ProgramBuilder& builder, std::size_t unit) {
  const Unit& of = builder.job().model.units[unit];
  const auto all = static_cast<double>(builder.job().model.trainable_parameters());
  const double share = static_cast<double>(of.trainable_parameters()) / all;
  if (share <= 0) return;
  optimizer(builder, share * builder.costs().optimizer, {});
  builder[builder.last()].of = of.name;
}

Bytes own_bytes(const Job& job, const Shards& shards) {
  const Bytes all = parameter_bytes(job.model, job.precision);
  const Bytes experts = expert_bytes(job.model, job.precision);
  return (all - experts) / static_cast<double>(shards.all) +
         experts / static_cast<double>(shards.experts);
}

/// States of a group and its gradients in fp32 are read before its step and written behind it, or
/// as they are made: nothing runs beside it (pipeline_read and pipeline_write are false; stage3.py:
/// _optimizer_states_and_gradient_swap_in, swap_out_gradients).
Seconds swap_time(const Job& job, const Shards& shards, const Node& node) {
  if (job.optimizer.offload != Offload::nvme) return Seconds(0);
  constexpr Bytes kGradient(4);
  const double elements = own_bytes(job, shards) / parameter_element(job.precision);
  const Bytes each = optimizer_memory(job.optimizer).kept() + kGradient;
  return 2.0 * elements * each / *node.nvme * static_cast<double>(node.gpus);
}

Seconds optimizer_time(const ProgramBuilder& builder, const Shards& shards, const Node& node) {
  const Bytes all = parameter_bytes(builder.job().model, builder.job().precision);
  const Seconds share = shards.all == shards.experts || all <= Bytes(0)
                            ? builder.costs().optimizer / static_cast<double>(shards.all)
                            : builder.costs().optimizer * (own_bytes(builder.job(), shards) / all);
  if (!builder.job().optimizer.offloads()) return share;
  const Seconds step = step_slowdown(builder.job(), node) * share;
  const Seconds copy = own_bytes(builder.job(), shards) / node.pcie.bandwidth;
  if (builder.job().optimizer.offload_overlap == OffloadOverlap::copies)
    return std::max(step, copy);
  return step + 2.0 * copy + swap_time(builder.job(), shards, node);
}

/// Of weights that each tensor rank has whole, but only its own tokens' gradients of; and of the
/// weight that embeddings on the first stage and logits on the last share (Megatron-LM's
/// finalize_model_grads).
void finish_gradients(ProgramBuilder& builder, const LeftToReduce& how,
                      std::vector<After>& reduced) {
  if (builder.job().stage == nullptr) return;
  const StagePlan& plan = *builder.job().stage;
  const auto reduce = [&](const char* what, double elements, std::size_t group) {
    reduced = {{builder.collective(how.lane, what,
                                   {.kind = CollectiveKind::all_reduce,
                                    .group = group,
                                    .size = elements / how.shards * how.element,
                                    .algorithm = how.algorithm},
                                   std::move(reduced))}};
  };
  const double summed = summed_elements(builder.job().model);
  const auto tensor = plan.exchange_groups.find(ExchangeAxis::tensor);
  if (tensor != plan.exchange_groups.end() && summed > 0) reduce("norms", summed, tensor->second);
  if (plan.shared_weight_group)
    reduce("shared embeddings", static_cast<double>(plan.shared_weight), *plan.shared_weight_group);
}

void add_up(ProgramBuilder& builder, const char* what, const GradientPasses& how,
            std::vector<After>& reduced) {
  constexpr Bytes kNumber(4);
  const auto among = [&](std::size_t group) {
    reduced = {{builder.collective(how.lane, what,
                                   {.kind = CollectiveKind::all_reduce,
                                    .group = group,
                                    .size = kNumber,
                                    .algorithm = how.algorithm},
                                   std::move(reduced))}};
  };
  if (how.shards.all > 1) among(0);
  if (builder.job().stage == nullptr) return;
  const auto& groups = builder.job().stage->exchange_groups;
  if (const auto tensor = groups.find(ExchangeAxis::tensor); tensor != groups.end())
    among(tensor->second);
}

void prepare_gradients(ProgramBuilder& builder, const GradientPasses& how,
                       std::vector<After>& reduced) {
  const Optimizer& optimizer = builder.job().optimizer;
  const Seconds read =
      how.slower * builder.costs().copy_time(how.width * own_bytes(builder.job(), how.shards));
  if (read <= Seconds(0)) return;  // times are given: they have it
  const auto pass = [&](Verb verb, const char* what, Seconds duration) {
    reduced = {{builder.kernel(verb, what, Phase::optimizer, duration, std::move(reduced))}};
  };
  if (optimizer.scales() && !builder.costs().optimizer_unscales) {
    pass(Verb::unscale, "gradients", 2.0 * read);
    add_up(builder, "infinities in gradients", how, reduced);
  }
  if (optimizer.clips()) {
    pass(Verb::clip, "gradients, norm", read);
    add_up(builder, "norm of gradients", how, reduced);
    pass(Verb::clip, "gradients", 2.0 * read);
  }
  if (optimizer.scales() && !optimizer.fused)
    builder.block_host("infinities in gradients", reduced);
}

/// Only trained weights are quantized again each step.
void quantize_weights(ProgramBuilder& builder, OpId after) {
  if (!is_narrow(builder.job().precision)) return;
  double elements = 0;
  for (const Unit& unit : builder.job().model.units)
    for (const Operator& op : unit.operators)
      if (op.narrows && !op.frozen) elements += op.parameter_elements;
  builder.copy(
      builder.job().precision == Precision::nvfp4 ? "weights to 4 bits" : "weights to 8 bits",
      elements * (Bytes(2) + 2 * narrow_element(builder.job().precision)), {{after}});
}

}  // namespace rehearse::inline strategy
