#include "model/packing.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rehearse::inline model {

namespace {

double normal_below(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

/// E[min(n, most)^power] of a log-normal n.
double cut_moment(double mu, double sigma, double most, int power) {
  const double at = (std::log(most) - mu) / sigma;
  return std::exp(power * mu + power * power * sigma * sigma / 2) *
             normal_below(at - power * sigma) +
         std::pow(most, power) * normal_below(-at);
}

bool is_fused(const Operator& op) {
  return op.kind == OperatorKind::attention && op.product.columns == 0;
}

/// What is left of the pairs of a query and a key of a unit's attention; 1: it has none.
double left_of_pairs(const Unit& unit, double document, int context) {
  for (const Layer& layer : unit.layers) {
    if (layer.kind != LayerKind::attention) continue;
    const double tokens = context * static_cast<double>(layer.in.positions());
    const auto window = static_cast<double>(layer.attention.window);
    const double seen = window > 0 ? std::min(window, tokens) : tokens;
    return std::min(seen, document) / seen;
  }
  return 1;
}

}  // namespace

double document_of_a_token(const Documents& documents, double packed) {
  if (documents.deviation == 0) return std::min(documents.mean, packed);
  const double ratio = documents.deviation / documents.mean;
  const double variance = std::log1p(ratio * ratio);
  const double mu = std::log(documents.mean) - variance / 2, sigma = std::sqrt(variance);
  return cut_moment(mu, sigma, packed, 2) / cut_moment(mu, sigma, packed, 1);
}

Model packed(Model model, double document, int context) {
  const double part = document / context;
  for (Unit& unit : model.units) {
    const double left = left_of_pairs(unit, document, context);
    for (Operator& op : unit.operators) {
      if (!is_fused(op)) continue;
      op.forward_flops *= left;
      op.backward_flops *= left;
      if (op.heads.heads == 0) continue;
      op.product.products = std::max(1.0, op.tokens / part);
      op.tokens = std::min(op.tokens, part);
    }
  }
  model.variant += model.variant.empty() ? "packed documents" : ", packed documents";
  return model;
}

std::optional<double> packed_document(const Model& model) {
  for (const Unit& unit : model.units)
    for (const Operator& op : unit.operators)
      if (is_fused(op) && op.product.products > 0) return op.tokens;
  return std::nullopt;
}

}  // namespace rehearse::inline model
