#include "cost/played_time.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "model/captured/played.hpp"

namespace rehearse::inline cost {
namespace {

bool is_of_one_type(Precision precision) {
  const Precision computed = computed_in(precision);
  return computed == Precision::bf16_pure || computed == Precision::fp16_pure;
}

/// True where the tape's kernels stand for all that the operator does. A tape plays attention over
/// a sample as one document.
bool is_played(const Operator& op) {
  if (op.heads.heads > 0 && op.product.products > 1) return false;
  return !op.kernel && !op.recomputed && !op.frozen && op.storage < StoredAs::int8 &&
         op.sliced_gradients == 0 && op.scan.occupied == Seconds(0) && op.float8 == Float8::none;
}

/// Operators that its layers count.
std::size_t counted(const Unit& unit) {
  std::uint32_t end = 0;
  for (const Layer& layer : unit.layers) end = std::max(end, layer.end_operator);
  return end;
}

bool is_played(const Unit& unit) {
  return !unit.layers.empty() && counted(unit) <= unit.operators.size() && !unit.forward &&
         !unit.backward && unit.exchanges.empty() &&
         std::ranges::all_of(unit.operators, [](const Operator& op) { return is_played(op); });
}

/// Operators behind those of the layers stay, as the tape does not play them (model.train_metrics).
std::vector<Operator> as_operators(const Unit& unit, captured::UnitCalls calls) {
  std::vector<Operator> operators(
      unit.operators.begin() + static_cast<std::ptrdiff_t>(counted(unit)), unit.operators.end());
  operators.reserve(operators.size() + calls.forward.size() + calls.backward.size());
  for (auto* pass : {&calls.forward, &calls.backward})
    for (captured::Kernel& kernel : *pass) {
      Operator& op = operators.emplace_back();
      op.kernel = std::make_shared<const captured::Kernel>(std::move(kernel));
    }
  return operators;
}

}  // namespace

std::vector<Unit> units_of_kernels(const Model& model, Precision precision, double batch) {
  std::vector<Unit> units = model.units;
  if (model.captured || !model.chunks.empty() || !is_of_one_type(precision) ||
      batch != std::floor(batch) ||
      !std::ranges::all_of(units, [](const Unit& unit) { return is_played(unit); }))
    return units;
  std::vector<captured::UnitCalls> calls = captured::calls_of(
      model, {.precision = computed_in(precision), .batch = static_cast<std::int64_t>(batch)});
  for (std::size_t i = 0; i < units.size(); ++i)
    if (!calls[i].forward.empty() && !model.is_compiled(i) && !model.is_fused(i))
      units[i].operators = as_operators(units[i], std::move(calls[i]));
  return units;
}

}  // namespace rehearse::inline cost
