#include "strategy/sync/host_optimizer.hpp"

#include <utility>

namespace rehearse::inline strategy {

HostOptimizer::HostOptimizer(ProgramBuilder& builder, const Node& node, std::size_t parts,
                             double group)
    : builder_(builder),
      node_(node),
      least_(group),
      out_(builder.lane("copies to the host", LaneKind::communication)),
      cpus_(builder.lane("optimizer on the host", LaneKind::communication)),
      back_(builder.lane("copies from the host", LaneKind::communication)),
      returned_(parts),
      waiting_(1) {}

OpId HostOptimizer::add(Verb verb, const std::string& of, LaneId lane, Seconds time,
                        std::vector<After> after) {
  builder_.add({.verb = verb,
                .of = of,
                .phase = verb == Verb::optimizer ? Phase::optimizer : Phase::communication,
                .lane = lane,
                .work = Compute{.duration = time, .jittered = false},
                .after = std::move(after)});
  return builder_.last();
}

/// Gradients and parameters travel as parameters are stored (prime-rl's bf16 rings).
Seconds HostOptimizer::copy_time(double elements) const {
  const Bytes size = elements * parameter_element(builder_.job().precision);
  return node_.pcie.latency + size / node_.pcie.bandwidth;
}

/// A later micro-batch's are added to the sum of fp32 there: they are read, and it is read and
/// written.
OpId HostOptimizer::send(std::size_t part, const std::string& of, double elements,
                         std::vector<After> after, const Pass& pass) {
  constexpr Bytes kSum(4 + 4);
  const OpId copy = add(Verb::copy_to_host, of, out_, copy_time(elements), std::move(after));
  OpId there = copy;
  if (!pass.first) {
    const Bytes moved = elements * (parameter_element(builder_.job().precision) + kSum);
    const Seconds time = moved / node_.pcie.host_bandwidth * static_cast<double>(node_.gpus);
    there = add(Verb::copy, of, cpus_, time, {{copy}});
    builder_[there].remark = ", added on the host";
  }
  if (!pass.last) return copy;
  sent_.push_back({there});
  Group& group = waiting_.back();
  if (group.parts.empty()) group.of = of;
  group.elements += elements;
  group.parts.push_back(part);
  group.sent.push_back({there});
  if (group.elements < least_) return copy;
  if (builder_.job().optimizer.clips()) {
    waiting_.emplace_back();
  } else {
    update(group, group.sent);
    group = {};
  }
  return copy;
}

void HostOptimizer::update(const Group& group, std::vector<After> after) {
  const auto all = static_cast<double>(builder_.job().model.trainable_parameters());
  const Seconds time = host_slowdown(node_) * (group.elements / all) * builder_.costs().optimizer;
  const OpId step = add(Verb::optimizer, group.of, cpus_, time, std::move(after));
  std::get<Compute>(builder_[step].work).step = builder_.training_step();
  last_ = add(Verb::copy_to_gpu, group.of, back_, copy_time(group.elements), {{step}});
  for (const std::size_t part : group.parts) returned_[part] = last_;
}

OpId HostOptimizer::finish(const GradientPasses& how,
                           const std::vector<std::optional<OpId>>& uses) {
  if (builder_.job().optimizer.clips()) prepare_gradients(builder_, how, sent_);
  for (const Group& group : waiting_)
    if (!group.parts.empty()) update(group, sent_);
  waiting_ = {Group{}};
  sent_.clear();
  for (std::size_t part = 0; part < uses.size(); ++part)
    if (returned_[part] && uses[part]) builder_[*uses[part]].after.push_back({*returned_[part], 1});
  return last_;
}

}  // namespace rehearse::inline strategy
