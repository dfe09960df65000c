#include "strategy/program_builder.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "strategy/stage_plan.hpp"

namespace rehearse::inline strategy {

ProgramBuilder::ProgramBuilder(std::string name, const StepCosts& costs, const Job& job,
                               std::optional<Precision> computes)
    : costs_(costs),
      job_(job),
      computes_(computes.value_or(computed_in(job.precision))),
      parameters_are_leaves_(!computes) {
  check(costs.units.size() == job.model.units.size(), "costs that are not the model's");
  program.name = std::move(name);
  compute_ = lane("compute", LaneKind::compute);
  const bool launches = std::any_of(
      costs.units.begin(), costs.units.end(),
      [](const UnitCost& unit) { return unit.forward_launch + unit.backward_launch > Seconds(0); });
  const bool loads = costs.loading && costs.loading->ahead == 0;
  if (launches || loads) host_ = lane("host", LaneKind::host);
  if (costs.host_computes) host_ = compute_;
  read_tape();
}

LaneId ProgramBuilder::lane(std::string name, LaneKind kind) {
  program.lanes.push_back({std::move(name), kind});
  return LaneId(program.lanes.size() - 1);
}

Op& ProgramBuilder::add(Op op) { return program.ops.emplace_back(std::move(op)); }

OpId ProgramBuilder::unit_op(std::size_t unit, Verb pass, const PassCost& cost,
                             std::vector<After> after) {
  launch(unit, pass, cost, after);
  if (cost.segments != nullptr && !cost.segments->exchanges.empty())
    return segments(unit, pass, cost, std::move(after));
  return compute(unit, pass, cost.time, cost.spread, std::move(after));
}

void ProgramBuilder::launch(std::size_t unit, Verb pass, const PassCost& cost,
                            std::vector<After>& after) {
  if (!host_ || host_computes()) return;
  add({.verb = Verb::launch,
       .pass = pass,
       .of = job_.model.units[unit].name,
       .phase = Phase::host,
       .lane = host_,
       .work = Compute{.duration = cost.launch, .jittered = false}});
  last_on_host_ = last();
  after.push_back({last()});
}

OpId ProgramBuilder::compute(std::size_t unit, Verb pass, Seconds time, double spread,
                             std::vector<After> after) {
  after.insert(after.end(), unawaited_.begin(), unawaited_.end());
  unawaited_.clear();
  add({.verb = pass,
       .of = job_.model.units[unit].name,
       .phase = pass == Verb::forward ? Phase::forward : Phase::backward,
       .lane = compute_,
       .work = Compute{.duration = time, .step = step_, .spread = spread},
       .after = std::move(after)});
  if (host_computes()) last_on_host_ = last();
  last_computed_ = last();
  has_computed_ = true;
  return last();
}

/// True for the first unit, in a pipeline that of the chunk which is given a batch.
bool ProgramBuilder::reads_batch(std::size_t unit) const {
  if (job_.stage == nullptr) return unit == 0;
  const std::vector<StagePlan::Part>& parts = job_.stage->parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool given = i >= job_.model.chunks.size() || job_.model.chunks[i].input == 0;
    if (parts[i].first == unit && !parts[i].input && given) return true;
  }
  return false;
}

/// By workers beside all else, or by the host before it launches what needs it. Workers make the
/// next one as soon as one is taken that they made `ahead` iterations before.
void ProgramBuilder::load_batch(std::vector<After>& after) {
  const bool by_host = costs_.loading->ahead == 0;
  if (!by_host && !loader_) loader_ = lane("data loader", LaneKind::host);
  add({.verb = Verb::load,
       .of = "batch",
       .phase = Phase::loading,
       .lane = by_host ? host_ : loader_,
       .work = Compute{.duration = costs_.loading->each, .jittered = false}});
  const OpId loaded = last();
  after.push_back({loaded});
  if (by_host) {
    last_on_host_ = loaded;
    return;
  }
  if (host_) {
    block_host("batch", {{loaded}});
  } else {
    add({.verb = Verb::wait_for,
         .of = "batch",
         .phase = Phase::host,
         .lane = compute_,
         .after = {{loaded}}});
  }
  const OpId taken = last();
  program.ops[loaded.index()].after.push_back({taken, costs_.loading->ahead});
}

OpId ProgramBuilder::forward(std::size_t unit, std::vector<After> after) {
  if (is_offloaded(unit)) move_out(unit);
  if (costs_.loading && reads_batch(unit)) load_batch(after);
  const UnitCost& cost = costs_.units[unit];
  const OpId op =
      unit_op(unit, Verb::forward,
              {cost.forward, cost.forward_launch, cost.forward_spread, &cost.forward_segments},
              std::move(after));
  if (is_offloaded(unit)) free_moved(op);
  for (const TensorEvent& event : events(unit).forward) note(op, event);
  return op;
}

void ProgramBuilder::recompute(std::size_t unit, std::vector<After>& after) {
  if (!job_.is_checkpointed(unit)) return;
  if (is_offloaded(unit)) move_in(unit, after);
  const UnitCost& cost = costs_.units[unit];
  const OpId again =
      unit_op(unit, Verb::recompute,
              {cost.forward, cost.forward_launch, cost.forward_spread, &cost.forward_segments},
              std::move(after));
  for (const TensorEvent& event : events(unit).recompute) note(again, event);
  after.clear();
}

namespace {

/// Of a unit's backward, what makes gradients of parameters, by its products: each has one for its
/// input and one for its weight, and attention and what moves data have none of these.
double weight_share(const Unit& unit) {
  double all = 0, weights = 0;
  for (const Operator& one : unit.operators) {
    all += one.backward_flops;
    const bool has_weight = one.kind == OperatorKind::matmul && one.parameter_elements > 0;
    if (has_weight || one.kind == OperatorKind::convolution) weights += one.backward_flops / 2;
  }
  return all > 0 ? weights / all : 0.5;
}

}  // namespace

OpId ProgramBuilder::backward_input(std::size_t unit, std::vector<After> after) {
  recompute(unit, after);
  const UnitCost& cost = costs_.units[unit];
  const double share = 1 - weight_share(job_.model.units[unit]);
  PassSegments parts = cost.backward_segments;
  for (Seconds& duration : parts.durations) duration = share * duration;
  const OpId op =
      unit_op(unit, Verb::backward_input,
              {share * cost.backward, share * cost.backward_launch, cost.backward_spread, &parts},
              std::move(after));
  if (const auto id = sent_gradient(unit); id && begins_chunk(unit)) take(op, *id);
  return op;
}

OpId ProgramBuilder::backward_weight(std::size_t unit, Gradients gradients,
                                     std::vector<After> after) {
  const UnitCost& cost = costs_.units[unit];
  const double share = weight_share(job_.model.units[unit]);
  const OpId op =
      unit_op(unit, Verb::backward_weight,
              {share * cost.backward, share * cost.backward_launch, cost.backward_spread},
              std::move(after));
  note_backward(op, unit, gradients, false);
  return op;
}

OpId ProgramBuilder::backward(std::size_t unit, Gradients gradients, std::vector<After> after) {
  recompute(unit, after);
  const UnitCost& cost = costs_.units[unit];
  const OpId op =
      unit_op(unit, Verb::backward,
              {cost.backward, cost.backward_launch, cost.backward_spread, &cost.backward_segments},
              std::move(after));
  note_backward(op, unit, gradients);
  if (is_offloaded(unit)) end_moved(unit, op);
  return op;
}

void ProgramBuilder::launch_optimizer(std::vector<After>& ready) {
  if (!host_ || host_computes() || costs_.optimizer_launch <= Seconds(0)) return;
  add({.verb = Verb::launch,
       .pass = Verb::optimizer,
       .phase = Phase::host,
       .lane = host_,
       .work = Compute{.duration = costs_.optimizer_launch, .jittered = false}});
  last_on_host_ = last();
  ready.push_back({last()});
}

OpId ProgramBuilder::optimizer(Seconds duration, std::vector<After> after) {
  add({.verb = Verb::optimizer,
       .phase = Phase::optimizer,
       .lane = compute_,
       .work = Compute{.duration = duration, .step = step_},
       .after = std::move(after)});
  return last();
}

void ProgramBuilder::optimizer_of(std::size_t unit) {
  const Unit& of = job_.model.units[unit];
  const auto all = static_cast<double>(job_.model.trainable_parameters());
  const double share = static_cast<double>(of.trainable_parameters()) / all;
  if (share <= 0) return;
  optimizer(share * costs_.optimizer, {});
  program.ops.back().of = of.name;
}

/// Of weights that each tensor rank has whole, but only its own tokens' gradients of; and of the
/// weight that embeddings on the first stage and logits on the last share (Megatron-LM's
/// finalize_model_grads).
void ProgramBuilder::finish_gradients(const LeftToReduce& how, std::vector<After>& reduced) {
  if (job_.stage == nullptr) return;
  const StagePlan& plan = *job_.stage;
  const auto reduce = [&](const char* what, double elements, std::size_t group) {
    reduced = {{collective(how.lane, what,
                           {.kind = CollectiveKind::all_reduce,
                            .group = group,
                            .size = elements / how.shards * how.element,
                            .algorithm = how.algorithm},
                           std::move(reduced))}};
  };
  const double summed = summed_elements(job_.model);
  const auto tensor = plan.exchange_groups.find(ExchangeAxis::tensor);
  if (tensor != plan.exchange_groups.end() && summed > 0) reduce("norms", summed, tensor->second);
  if (plan.shared_weight_group)
    reduce("shared embeddings", static_cast<double>(plan.shared_weight), *plan.shared_weight_group);
}

/// One number of each rank that has a part of the gradients.
void ProgramBuilder::add_up(const char* what, const GradientPasses& how,
                            std::vector<After>& reduced) {
  constexpr Bytes kNumber(4);
  const auto among = [&](std::size_t group) {
    reduced = {{collective(how.lane, what,
                           {.kind = CollectiveKind::all_reduce,
                            .group = group,
                            .size = kNumber,
                            .algorithm = how.algorithm},
                           std::move(reduced))}};
  };
  if (how.shards.all > 1) among(0);
  if (job_.stage == nullptr) return;
  const auto& groups = job_.stage->exchange_groups;
  if (const auto tensor = groups.find(ExchangeAxis::tensor); tensor != groups.end())
    among(tensor->second);
}

void ProgramBuilder::prepare_gradients(const GradientPasses& how, std::vector<After>& reduced) {
  const Optimizer& optimizer = job_.optimizer;
  const Seconds read = how.slower * costs_.copy_time(how.width * own_bytes(how.shards));
  if (read <= Seconds(0)) return;  // times are given: they have it
  const auto pass = [&](Verb verb, const char* what, Seconds duration) {
    reduced = {{kernel(verb, what, Phase::optimizer, duration, std::move(reduced))}};
  };
  if (optimizer.scales() && !costs_.optimizer_unscales) {
    pass(Verb::unscale, "gradients", 2.0 * read);
    add_up("infinities in gradients", how, reduced);
  }
  if (optimizer.clips()) {
    pass(Verb::clip, "gradients, norm", read);
    add_up("norm of gradients", how, reduced);
    pass(Verb::clip, "gradients", 2.0 * read);
  }
  if (optimizer.scales() && !optimizer.fused) block_host("infinities in gradients", reduced);
}

std::optional<OpId> ProgramBuilder::copy(const std::string& what, Bytes moved,
                                         std::vector<After> after) {
  const Seconds time = costs_.copy_time(moved);
  if (time <= Seconds(0)) return std::nullopt;
  return kernel(Verb::copy, what, Phase::backward, time, std::move(after));
}

OpId ProgramBuilder::kernel(Verb verb, const std::string& of, Phase phase, Seconds duration,
                            std::vector<After> after) {
  add({.verb = verb,
       .of = of,
       .phase = phase,
       .lane = compute_,
       .work = Compute{.duration = duration, .step = step_},
       .after = std::move(after)});
  if (host_computes()) last_on_host_ = last();
  return last();
}

/// Of those that change.
void ProgramBuilder::quantize_weights(OpId after) {
  if (!is_narrow(job_.precision)) return;
  double elements = 0;
  for (const Unit& unit : job_.model.units)
    for (const Operator& op : unit.operators)
      if (op.narrows && !op.frozen) elements += op.parameter_elements;
  copy(job_.precision == Precision::nvfp4 ? "weights to 4 bits" : "weights to 8 bits",
       elements * (Bytes(2) + 2 * narrow_element(job_.precision)), {{after}});
}

Bytes ProgramBuilder::own_bytes(const Shards& shards) const {
  const Bytes all = parameter_bytes(job_.model, job_.precision);
  const Bytes experts = expert_bytes(job_.model, job_.precision);
  return (all - experts) / static_cast<double>(shards.all) +
         experts / static_cast<double>(shards.experts);
}

Seconds ProgramBuilder::optimizer_time(const Shards& shards, const Node& node) const {
  const Bytes all = parameter_bytes(job_.model, job_.precision);
  const Seconds share = shards.all == shards.experts || all <= Bytes(0)
                            ? costs_.optimizer / static_cast<double>(shards.all)
                            : costs_.optimizer * (own_bytes(shards) / all);
  if (!job_.optimizer.offload) return share;
  return step_slowdown(node) * share + 2.0 * own_bytes(shards) / node.pcie.bandwidth;
}

OpId ProgramBuilder::collective(LaneId lane, std::string what, Collective collective,
                                std::vector<After> after) {
  if (last_on_host_) after.push_back({*last_on_host_});  // the host issues it no earlier
  add({.verb = verb_of(collective.kind),
       .of = std::move(what),
       .moves = collective.size,
       .phase = Phase::communication,
       .lane = lane,
       .work = collective,
       .after = std::move(after)});
  return last();
}

void ProgramBuilder::block_host(std::string what, std::vector<After> after) {
  if (!host_ || after.empty()) return;
  add({.verb = Verb::wait_for,
       .of = std::move(what),
       .phase = Phase::host,
       .lane = host_,
       .work = Join{},
       .after = std::move(after)});
  last_on_host_ = last();
}

double host_slowdown(const Node& node) {
  return node.gpu.memory_bandwidth / node.pcie.host_bandwidth * node.gpus;
}

Bytes parameter_bytes(const Unit& unit, Precision precision) {
  Bytes sum;
  for (std::size_t i = 0; i < unit.tensors.size(); ++i)
    if (unit.trait(i).trained) sum += stored_bytes(unit, i, precision);
  return sum;
}

Bytes parameter_bytes(const Model& model, Precision precision) {
  Bytes sum;
  for (const Unit& unit : model.units) sum += parameter_bytes(unit, precision);
  return sum;
}

Bytes expert_bytes(const Model& model, Precision precision) {
  Bytes sum;
  for (const Unit& unit : model.units)
    for (std::size_t i = 0; i < unit.tensors.size(); ++i)
      if (unit.trait(i).trained && unit.is_of_experts(i)) sum += stored_bytes(unit, i, precision);
  return sum;
}

Group make_group(std::string name, std::vector<RankId> members, const Schedule& schedule) {
  Group group{.name = std::move(name), .members = std::move(members)};
  group.ranks = group.members.size();
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    const NodeId node = schedule.ranks[group.members[i].index()].place.node;
    if (i == 0 || node != schedule.ranks[group.members[i - 1].index()].place.node) ++group.nodes;
  }
  return group;
}

void add_world(Schedule& schedule) {
  std::vector<RankId> all;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) all.emplace_back(r);
  schedule.groups.push_back(make_group("world", std::move(all), schedule));
  for (RankSpec& rank : schedule.ranks) rank.groups = {GroupId(schedule.groups.size() - 1)};
}

void require_gpus(const Job& job) {
  if (job.cluster.gpu_count() == 0)
    throw InputError(
        "error: cluster: no node has a GPU, so nothing can train\nremedy: set `gpus` of a node to "
        "1 or more");
}

}  // namespace rehearse::inline strategy
