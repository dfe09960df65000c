#include "cost/muon.hpp"

#include <algorithm>

namespace rehearse::inline cost {

namespace {

/// Of one step: three products, and a copy in front of two of them.
constexpr int kKernelsOfAStep = 5;
constexpr Bytes kBf16(2);

Seconds product(const Roofline& roofline, double rows, double columns, double inner, bool adds) {
  Operator op{.kind = OperatorKind::matmul, .forward_flops = 2 * rows * columns * inner};
  op.forward_elements = rows * inner + inner * columns + (adds ? 2 : 1) * rows * columns;
  op.product = {.rows = rows, .columns = columns, .inner = inner};
  const Seconds copied =
      adds ? roofline.launch() + roofline.moved(2 * rows * columns * kBf16) : Seconds(0);
  return roofline.time(op, 1, Direction::forward) + copied;
}

Seconds iteration_time(const Roofline& roofline, double least, double most) {
  return product(roofline, least, least, most, false) +
         product(roofline, least, least, least, true) + product(roofline, least, most, least, true);
}

}  // namespace

NewtonSchulz newton_schulz(const Model& model, const Roofline* in_bf16) {
  NewtonSchulz all;
  for (const Unit& unit : model.units) {
    for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
      const auto shape = hidden_matrix(unit, i);
      if (!shape || !unit.trait(i).trained) continue;
      const auto least = static_cast<double>(std::min(shape->rows, shape->columns));
      const auto most = static_cast<double>(std::max(shape->rows, shape->columns));
      const double steps = kNewtonSchulzSteps * static_cast<double>(shape->count);
      all.matrices += static_cast<double>(shape->count);
      all.flops += steps * (4 * least * least * most + 2 * least * least * least);
      if (in_bf16 != nullptr) all.time += steps * iteration_time(*in_bf16, least, most);
    }
  }
  return all;
}

Seconds muon_step(const Model& model, const Optimizer& optimizer, const Roofline& own,
                  const Roofline& in_bf16, Seconds host_launch) {
  const NewtonSchulz products = newton_schulz(model, &in_bf16);
  const Optimizer adamw = on_tensor(optimizer, std::nullopt);
  Bytes moved, others;
  std::size_t vectors = 0;
  for (const Unit& unit : model.units) {
    for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
      if (!unit.trait(i).trained) continue;
      const bool hidden = hidden_matrix(unit, i).has_value();
      const auto elements = static_cast<double>(unit.tensors[i]);
      (hidden ? moved : others) +=
          elements * optimizer_bytes_per_parameter(hidden ? optimizer : adamw);
      vectors += hidden ? 0 : 1;
    }
  }
  const double kernels = optimizer_kernels(optimizer, static_cast<std::size_t>(products.matrices));
  const double launched = kernels + kNewtonSchulzSteps * kKernelsOfAStep * products.matrices;
  const Seconds matrices = products.time + std::max(own.moved(moved), kernels * own.launch());
  const Seconds rest =
      std::max(own.moved(others), optimizer_kernels(adamw, vectors) * own.launch());
  return std::max(matrices, launched * host_launch) + rest;
}

}  // namespace rehearse::inline cost
