// What torch.compile, torchao and Megatron-LM's selective recomputation make of a network's
// kernels.
#include <algorithm>
#include <cmath>

#include "model/adaptation.hpp"

namespace rehearse::inline model {
namespace {

bool is_pointwise(const Operator& op) {
  return (op.kind == OperatorKind::elementwise && !op.library) ||
         op.kind == OperatorKind::normalization || op.kind == OperatorKind::cast;
}

/// Bytes are gathered where each rank casts its part first (torchtitan's Float8ColwiseParallel and
/// Float8RowwiseParallel, which its parallelize.py takes of tensor-wise scales alone). What copies
/// 16 bits copies half as much then.
void gather_bytes(Unit& unit) {
  for (Exchange& one : unit.exchanges) one.float8 = one.cast_first;
  for (Operator& op : unit.operators) {
    if (!op.library || op.kind != OperatorKind::elementwise) continue;
    if (op.input_ranks > 1) op.forward_elements /= 2;
    if (op.gradient_ranks > 1) op.backward_elements /= 2;
  }
}

/// A conversion that a network's code asks for, which a fused kernel makes in registers.
bool is_written_out(const Operator& op) {
  return op.kind == OperatorKind::cast && op.always_fp32 && op.storage == StoredAs::model;
}

/// Whether the unit's ranks exchange in front of an operator.
bool is_cut(const Unit& unit, std::size_t op) {
  return std::ranges::any_of(unit.exchanges, [op](const Exchange& exchange) {
    return exchange.issued.before_operator == op || exchange.awaited.before_operator == op;
  });
}

/// One kernel of two: what the first writes is not read again.
Operator fused(const Operator& first, const Operator& second) {
  Operator op = second;
  const double forward = std::min(first.forward_elements, second.forward_elements) / 2;
  const double backward = std::min(first.backward_elements, second.backward_elements) / 2;
  op.forward_elements += first.forward_elements - forward;
  op.backward_elements += first.backward_elements - backward;
  op.parameter_elements += first.parameter_elements;
  op.wide = op.always_fp32 = false;
  if (first.kind == OperatorKind::normalization || second.kind == OperatorKind::cast)
    op.kind = first.kind;
  return op;
}

/// Rows of a product's result as long as the fastest kernels load and store (torch/_inductor/
/// fx_passes/pad_mm.py); what is more is not computed with, and of the smallest share.
void pad(ProductShape& product) {
  constexpr double kVector = 8;
  if (product.weights == 0) product.columns = std::ceil(product.columns / kVector) * kVector;
}

/// One kernel reads logits as the product wrote them, twice forward; backward it makes them again,
/// and writes their gradient.
void read_logits(Operator& loss) {
  loss.wide = loss.always_fp32 = false;
  loss.backward_elements /= 2;
}

void compile(Unit& unit) {
  std::vector<Operator> operators;
  std::vector<std::size_t> places;  // by operator, and of the end
  for (std::size_t i = 0; i < unit.operators.size(); ++i) {
    Operator& op = unit.operators[i];
    if (!op.library || op.kind != OperatorKind::elementwise) {
      op.eager_forward = op.eager_backward = {};
      op.normed = op.pooled = op.bare_forward = op.bare_backward = 0;
    }
    if (op.kind == OperatorKind::matmul) pad(op.product);
    if (op.kind == OperatorKind::cast && op.forward_elements == 0) op.backward_elements = 0;
    if (op.kind == OperatorKind::loss && !op.library) {
      if (!operators.empty() && is_pointwise(operators.back()) && !is_cut(unit, i))
        operators.pop_back();
      read_logits(op);
    }
    const bool joins = !operators.empty() && is_pointwise(operators.back()) && is_pointwise(op) &&
                       !is_cut(unit, i);
    if (joins && is_written_out(op)) {
      operators.back().wide = operators.back().always_fp32 = false;
    } else if (joins) {
      operators.back() = fused(operators.back(), op);
    } else {
      operators.push_back(op);
    }
    places.push_back(operators.size() - 1);
  }
  places.push_back(operators.size());
  unit.operators = std::move(operators);
  for (Exchange& exchange : unit.exchanges)
    for (Cut* cut : {&exchange.issued, &exchange.awaited})
      cut->before_operator = places.at(cut->before_operator);
  for (Layer& layer : unit.layers) {
    layer.first_operator = static_cast<std::uint32_t>(places.at(layer.first_operator));
    layer.end_operator = static_cast<std::uint32_t>(places.at(layer.end_operator));
  }
}

/// What autograd adds up between modules has no kernel of its own, and stays.
void fuse_modules(Unit& unit) {
  for (Operator& op : unit.operators) {
    if (!is_pointwise(op) || op.forward_elements == 0) continue;
    op.eager_forward = op.eager_backward = {};
    op.normed = 0;
  }
}

}  // namespace

/// Of attention as products of its own, what stands between them is part of it.
Model recomputing_attention(Model model) {
  for (Unit& unit : model.units) {
    for (Layer& layer : unit.layers) layer.recomputed = layer.kind == LayerKind::attention;
    const auto attends = [](const Operator& op) { return op.kind == OperatorKind::attention; };
    const auto first = std::ranges::find_if(unit.operators, attends);
    const auto last = std::find_if(unit.operators.rbegin(), unit.operators.rend(), attends).base();
    for (auto op = first; op < last; ++op) op->recomputed = true;
  }
  return model;
}

Model with_float8(Model model, Float8 recipe) {
  model.float8 = recipe;
  if (recipe == Float8::none) return model;
  if (!model.variant.empty()) model.variant += ", ";
  model.variant += recipe == Float8::rowwise ? "rowwise float8" : "tensorwise float8";
  for (Unit& unit : model.units) {
    for (Operator& op : unit.operators)
      if (op.narrows && op.product.weights == 0) op.float8 = recipe;  // experts are no nn.Linear
    if (recipe == Float8::tensorwise) gather_bytes(unit);
  }
  return model;
}

Model compiled(Model model, Compile what) {
  model.compile = what;
  if (what == Compile::none) return model;
  if (!model.variant.empty()) model.variant += ", ";
  model.variant += what == Compile::modules  ? "fused modules"
                   : what == Compile::blocks ? "compiled blocks"
                                             : "compiled";
  for (std::size_t i = 0; i < model.units.size(); ++i) {
    if (model.is_compiled(i)) {
      compile(model.units[i]);
    } else if (model.is_fused(i)) {
      fuse_modules(model.units[i]);
    }
  }
  return model;
}

}  // namespace rehearse::inline model
