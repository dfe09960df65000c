#include "cost/launches.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cost/peak.hpp"
#include "model/captured/captured.hpp"
#include "model/captured/work.hpp"

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
/// backward), and 8 and 2 more where tokens are exchanged (tests/validation/hopper,
/// expert_layers.csv).
///
/// Experts that come one by one are TransformerEngine's GroupedLinear (pytorch/module/
/// grouped_linear.py): it launches products in C++. In Python each expert has its weight's object
/// both ways, and backward the node and the hook that take its gradient.
struct ExpertLaunches {
  double grouped, exchanged, each, products;
};
constexpr ExpertLaunches kExpertsForward{23.5, 4, 1, 1}, kExpertsBackward{21.5, 1, 2, 2};

/// Kernels that make one expert's operand narrow. A scale per tensor takes its largest element, the
/// scale and the cast (TransformerEngine's current scaling).
double quantize_kernels(const Operator& op, Precision precision) {
  if (!op.runs_narrow(precision)) return 0;
  if (precision == Precision::fp8) return 3;
  return precision == Precision::nvfp4 ? 3 : 1;
}

/// Python objects that stand for one expert's narrow operand. A tensor with a scale of its own is
/// one, made with its data, transpose and scale (split_quantize in pytorch/csrc/extensions/cast.cpp
/// calls create_tensor for each). Those with scales of blocks come out of one allocation.
double narrow_objects(const Operator& op, Precision precision) {
  return op.runs_narrow(precision) && precision == Precision::fp8 ? 1 : 0;
}

/// Transformers' experts say themselves what they launch: composites of kernels, or a loop.
bool says_its_launches(const Unit& unit) {
  return std::ranges::any_of(unit.operators, [](const Operator& op) {
    return op.sliced_gradients > 0 || (!op.library && op.eager_forward.kernels >= 12);
  });
}

bool is_of_experts(const Exchange& one) {
  return one.axis != ExchangeAxis::tensor && one.axis != ExchangeAxis::context &&
         one.axis != ExchangeAxis::embedding;
}

/// The operator in front of which a forward pass tells the host how many tokens its experts get:
/// it launches no more before. Nothing: it need not know.
std::optional<std::size_t> counts_known(const Unit& unit) {
  for (const Exchange& one : unit.exchanges)
    if (one.pass == Direction::forward && is_of_experts(one)) return one.issued.before_operator;
  return std::nullopt;
}

/// The copy of its input that autograd makes for an operator in place, within the same call and
/// directly before its kernel (tools/autograd/gen_variable_type.py: self.clone()).
bool is_kept_input(const Unit& unit, std::size_t place) {
  const captured::Kernel& kernel = *unit.operators[place].kernel;
  if (kernel.backward || kernel.name != "clone" || kernel.reads.empty()) return false;
  if (place + 1 == unit.operators.size()) return false;
  const auto& next = unit.operators[place + 1].kernel;
  return next && !next->backward && next->name.ends_with('_') && !next->reads.empty() &&
         next->reads[0].elements(1) == kernel.reads[0].elements(1);
}

/// Sums of gradients, which autograd's engine makes between nodes, counters, and kept inputs.
bool is_bare(const Unit& unit, std::size_t place) {
  if (is_kept_input(unit, place)) return true;
  const captured::Kernel& kernel = *unit.operators[place].kernel;
  const bool adds = kernel.name == "add" || kernel.name == "add_";
  const bool sums = kernel.backward && adds && !kernel.first_of_node;
  const bool counts = !kernel.writes.empty() && kernel.writes[0].format == "int64" &&
                      kernel.writes[0].elements(1) <= 1;
  return sums || counts;
}

void add_captured_launches(Launches& sum, const Unit& unit, std::size_t place,
                           const Roofline& roofline) {
  const captured::Kernel& kernel = *unit.operators[place].kernel;
  if (is_bare(unit, place)) {
    sum.bare += kernel.calls;
    return;
  }
  sum.operators += kernel.calls * captured::work_of(kernel, 1).operators;
  sum.bare += kernel.calls * roofline.captured_conversions(kernel);
}

using enum GraphScope;

bool is_mixer(const Layer& layer) {
  return layer.kind == LayerKind::attention || layer.mixer != nullptr;
}

bool is_experts(const Layer& layer) { return layer.kind == LayerKind::experts; }

bool is_activation(const Layer& layer) {
  using enum LayerKind;
  return layer.kind == swiglu || layer.kind == gelu || layer.kind == gelu_new ||
         layer.kind == rectify || layer.kind == silu_out;
}

/// Finds what a block's graphs hold, by operator. Its mixer ends with its sum; a layer of experts
/// begins with its norm, and its router ends where the experts' first product stands.
std::vector<std::optional<GraphScope>> modules_of(const Unit& unit) {
  std::vector<std::optional<GraphScope>> modules(unit.operators.size());
  const auto mixer = std::ranges::find_if(unit.layers, is_mixer);
  const bool experts = std::ranges::any_of(unit.layers, is_experts);
  const bool mixes = mixer != unit.layers.end();
  if (!mixes && !experts && std::ranges::none_of(unit.layers, is_activation)) return modules;
  const GraphScope rest = experts ? moe_router : mlp;
  const bool is_mamba = mixes && mixer->mixer && mixer->mixer->is_mamba();
  GraphScope now = !mixes ? rest : is_mamba ? mamba : attn;
  bool passed = false;  // the mixer
  for (const Layer& layer : unit.layers) {
    if (now == moe_router && layer.kind == LayerKind::linear) now = moe;
    for (std::uint32_t op = layer.first_operator; op < layer.end_operator; ++op) {
      if (is_experts(layer) && unit.operators[op].product.weights > 1) now = moe;
      modules[op] = now;
    }
    if (is_experts(layer)) now = moe;
    passed |= is_mixer(layer);
    if (passed && (now == attn || now == mamba) && layer.kind == LayerKind::add) now = rest;
  }
  return modules;
}

/// The graphs of a unit that are there, each of which is one call: a dispatcher's work goes with
/// the router before it.
class Graphs {
 public:
  Graphs(const Unit& unit, const std::vector<GraphScope>& scopes) : scopes_(scopes) {
    if (!scopes.empty()) modules_ = modules_of(unit);
  }

  bool holds(GraphScope module) const {
    const auto has = [&](GraphScope one) {
      return std::ranges::find(scopes_, one) != scopes_.end();
    };
    return has(module) || (has(moe) && (module == moe_router || module == moe_preprocess));
  }
  bool holds_operator(std::size_t place) const {
    return !modules_.empty() && modules_[place] && holds(*modules_[place]);
  }
  /// Graphs of operators from `first` on.
  double calls(std::size_t first) const {
    double count = 0;
    for (std::size_t i = first; i < modules_.size(); ++i)
      if (holds_operator(i) && (i == first || modules_[i - 1] != modules_[i])) ++count;
    return count;
  }

 private:
  const std::vector<GraphScope>& scopes_;
  std::vector<std::optional<GraphScope>> modules_;
};

/// Two products sort, count and permute. The first one does so before tokens are sent, and a graph
/// of the dispatcher's work holds it.
void add_expert_launches(Launches& sum, const Unit& unit, Precision precision, bool backward,
                         const Graphs& graphs) {
  if (says_its_launches(unit)) return;
  const ExpertLaunches& launches = backward ? kExpertsBackward : kExpertsForward;
  const bool exchanged = std::ranges::any_of(unit.exchanges, is_of_experts);
  bool held = graphs.holds(moe_preprocess);
  for (const Operator& op : unit.operators) {
    if (op.kind != OperatorKind::matmul || op.product.weights <= 1) continue;
    if (!std::exchange(held, false))
      sum.experts += launches.grouped + (exchanged ? launches.exchanged : 0);
    if (op.product.together) continue;
    sum.experts += (launches.each + narrow_objects(op, precision)) * op.product.weights;
    sum.bare += (launches.products + quantize_kernels(op, precision)) * op.product.weights;
  }
}

/// From operator `first` on.
Launches launched(const Unit& unit, Direction direction, const Roofline& roofline,
                  Precision precision, std::size_t first, const Graphs& graphs) {
  const bool backward = direction == Direction::backward;
  Launches sum{.operators = graphs.calls(first)};
  if (!graphs.holds(moe)) add_expert_launches(sum, unit, precision, backward, graphs);
  for (std::size_t i = first; i < unit.operators.size(); ++i) {
    if (graphs.holds_operator(i)) continue;
    const Operator& op = unit.operators[i];
    if (op.kernel) {
      if (op.kernel->backward == backward) add_captured_launches(sum, unit, i, roofline);
      continue;
    }
    if (roofline.time(op, 1, direction) == Seconds(0)) continue;
    sum.bare += backward ? op.bare_backward : op.bare_forward;
    if (op.kind == OperatorKind::layout) continue;
    const EagerKernels& eager = backward ? op.eager_backward : op.eager_forward;
    sum.operators += std::max(1.0, eager.kernels);
    if (is_bias(op) && backward && is_autocast(precision)) ++sum.operators;
    if (!has_cast_weights(op.kind) || op.parameter_elements == 0 || (backward && op.frozen))
      continue;
    if (backward) ++sum.operators;
    if (is_autocast(precision)) ++sum.operators;  // of the weight, or of its gradient
  }
  return sum;
}

void wait_for_each(UnitCost& unit) {
  unit.forward += std::exchange(unit.forward_launch, Seconds(0));
  unit.backward += std::exchange(unit.backward_launch, Seconds(0));
  unit.awaited_launch = Seconds(0);
}

}  // namespace

void add_launches(StepCosts& costs, const Model& model, const Roofline& roofline,
                  Precision precision, const AnalyticEfficiency& efficiency) {
  costs.host_operator = efficiency.host_operator();
  costs.launch_blocking = efficiency.launch_blocking;
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    const Unit& unit = model.units[i];
    if (unit.forward) continue;  // given: so is what its launches take
    if (std::ranges::find(efficiency.graphs, full_iteration) != efficiency.graphs.end()) continue;
    const bool compiled = model.is_compiled(i) && model.compile != Compile::library;
    const Seconds each = compiled ? efficiency.host_kernel() : efficiency.host_operator();
    const Graphs graphs(unit, efficiency.graphs);
    const auto of = [&](Direction direction, std::size_t first = 0) {
      const Launches all = launched(unit, direction, roofline, precision, first, graphs);
      return all.operators * each + all.bare * efficiency.host_kernel() +
             all.experts * efficiency.host_operator();
    };
    costs.units[i].forward_launch = of(Direction::forward);
    costs.units[i].backward_launch = of(Direction::backward);
    const std::optional<std::size_t> counts = counts_known(unit);
    if (counts) costs.units[i].awaited_launch = of(Direction::forward, *counts);
    // Here, so that the segments of a pass have them too; hooks come later (waited_for).
    if (efficiency.launch_blocking) wait_for_each(costs.units[i]);
  }
}

void add_optimizer_launch(StepCosts& costs, const Model& model, const Optimizer& optimizer,
                          const AnalyticEfficiency& efficiency) {
  if (model.optimizer_time || costs.host_computes) return;
  const std::size_t tensors = model.trained_tensors();
  const Seconds operators = efficiency.host_operator();
  costs.optimizer_launch = static_cast<double>(tensors) * kHostTensor * operators +
                           looped_kernels(optimizer, tensors) * kHostLoop * operators;
}

StepCosts waited_for(StepCosts costs) {
  for (UnitCost& unit : costs.units) wait_for_each(unit);
  costs.optimizer += std::exchange(costs.optimizer_launch, Seconds(0));
  return costs;
}

}  // namespace rehearse::inline cost
