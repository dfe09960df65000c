#include "cost/launches.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "cost/peak.hpp"
#include "model/captured/captured.hpp"

namespace rehearse::inline cost {
namespace {

/// What the host launches of a unit. Composites of eager modules are as many as their parts,
/// products have two gradients, and autocast converts weights; cuDNN converts layouts within a
/// convolution. What takes no time is not launched.
struct Launches {
  double operators = 0, bare = 0;
  double experts = 0;  ///< of layers of experts, which no compiler fuses
};

/// What a layer of experts launches beyond the model's operators, for each of its two products:
/// sorting, counts, offsets and permutations. A layer launches 55 and 54 in all (forward,
/// backward), and 8 and 2 more where tokens are exchanged; where its experts come one by one, 4 and
/// 14 more for each of them: 4 % off in the mean of 24 rows
/// (tests/validation/hopper/expert_layers.csv).
struct ExpertLaunches {
  double grouped, exchanged, each;
};
constexpr ExpertLaunches kExpertsForward{23.5, 4, 2}, kExpertsBackward{21.5, 1, 7};

/// Transformers' experts say themselves what they launch: composites of kernels, or a loop.
bool says_its_launches(const Unit& unit) {
  return std::ranges::any_of(unit.operators, [](const Operator& op) {
    return op.sliced_gradients > 0 || op.eager_forward.kernels >= 12;
  });
}

double expert_launches(const Unit& unit, bool backward) {
  if (says_its_launches(unit)) return 0;
  const ExpertLaunches& launches = backward ? kExpertsBackward : kExpertsForward;
  const bool exchanged = std::ranges::any_of(unit.exchanges, [](const Exchange& one) {
    return one.axis != ExchangeAxis::tensor && one.axis != ExchangeAxis::context;
  });
  double sum = 0;
  for (const Operator& op : unit.operators) {
    const bool of_experts = op.kind == OperatorKind::matmul && op.product.weights > 1;
    if (!of_experts) continue;
    sum += launches.grouped + (exchanged ? launches.exchanged : 0);
    if (!op.product.together) sum += launches.each * op.product.weights;
  }
  return sum;
}

/// Sums of gradients, which autograd's engine makes between nodes, and counters.
bool is_bare(const captured::Kernel& kernel) {
  const bool sums = kernel.backward && kernel.name == "add" && !kernel.first_of_node;
  const bool counts = !kernel.writes.empty() && kernel.writes[0].format == "int64" &&
                      kernel.writes[0].elements(1) <= 1;
  return sums || counts;
}

Launches launched(const Unit& unit, Direction direction, const Roofline& roofline,
                  Precision precision) {
  const bool backward = direction == Direction::backward;
  Launches sum{.experts = expert_launches(unit, backward)};
  for (const Operator& op : unit.operators) {
    if (op.kernel) {
      if (op.kernel->backward == backward)
        (is_bare(*op.kernel) ? sum.bare : sum.operators) += op.kernel->calls;
      continue;
    }
    if (roofline.time(op, 1, direction) == Seconds(0)) continue;
    sum.bare += backward ? op.bare_backward : op.bare_forward;
    if (op.kind == OperatorKind::layout) continue;
    const EagerKernels& eager = backward ? op.eager_backward : op.eager_forward;
    sum.operators += std::max(1.0, eager.kernels);
    if (!has_cast_weights(op.kind) || op.parameter_elements == 0 || (backward && op.frozen))
      continue;
    if (backward) ++sum.operators;
    if (is_autocast(precision)) ++sum.operators;  // of the weight, or of its gradient
  }
  return sum;
}

}  // namespace

/// The host runs ahead of the GPU where units take the GPU longer than their launches: then these
/// are not waited for but in front of the first. Elsewhere the schedule plays them.
void add_launches(StepCosts& costs, const Model& model, const Roofline& roofline,
                  Precision precision, const AnalyticEfficiency& efficiency) {
  constexpr double kFelt = 0.01;  // of what the step computes
  std::vector<std::pair<Seconds, Seconds>> launches;
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    const Seconds each =
        model.is_compiled(i) ? efficiency.host_kernel() : efficiency.host_operator();
    const auto of = [&](Direction direction) {
      const Launches all = launched(model.units[i], direction, roofline, precision);
      return all.operators * each + all.bare * efficiency.host_kernel() +
             all.experts * efficiency.host_operator();
    };
    launches.emplace_back(of(Direction::forward), of(Direction::backward));
  }
  Seconds ahead, waited, computed;
  const auto run = [&](Seconds computes, Seconds launch) {
    computed += computes;
    ahead += computes - launch;
    if (ahead >= Seconds(0)) return;
    waited += Seconds(0) - ahead;
    ahead = Seconds(0);
  };
  for (std::size_t i = 0; i < launches.size(); ++i) run(costs.units[i].forward, launches[i].first);
  for (std::size_t i = launches.size(); i-- > 0;) run(costs.units[i].backward, launches[i].second);
  if (waited <= kFelt * computed) return;
  costs.host_operator = efficiency.host_operator();
  for (std::size_t i = 0; i < launches.size(); ++i) {
    if (model.units[i].forward) continue;  // given: so is what its launches take
    costs.units[i].forward_launch = launches[i].first;
    costs.units[i].backward_launch = launches[i].second;
  }
}

/// A loop over tensors is felt where it takes longer than its kernels: the host is not ahead then.
void add_optimizer_launch(StepCosts& costs, const Model& model, const Optimizer& optimizer,
                          const AnalyticEfficiency& efficiency) {
  if (model.optimizer_time || costs.host_computes) return;
  const std::size_t tensors = model.trained_tensors();
  const Seconds operators = efficiency.host_operator();
  const Seconds loop = looped_kernels(optimizer, tensors) * kHostLoop * operators;
  if (costs.host_operator == Seconds(0) && loop <= costs.optimizer) return;
  costs.optimizer_launch = static_cast<double>(tensors) * kHostTensor * operators + loop;
}

}  // namespace rehearse::inline cost
