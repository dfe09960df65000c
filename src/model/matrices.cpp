#include "model/matrices.hpp"

#include <algorithm>

namespace rehearse::inline model {

namespace {

bool ends_in_a_loss(const Unit& unit) {
  return std::ranges::any_of(
      unit.layers, [](const Layer& layer) { return layer.kind == LayerKind::cross_entropy; });
}

/// `tensor` is one of the layer's outputs' weights, side by side, each with its bias behind it.
std::optional<MatrixShape> linear_weight(const Layer& layer, std::int64_t elements,
                                         std::size_t tensor) {
  if (layer.tied || tensor < layer.parameter) return std::nullopt;
  const std::size_t each = layer.bias ? 2 : 1;
  const std::size_t side = (tensor - layer.parameter) / each;
  if (side >= layer.channels.size() || (tensor - layer.parameter) % each != 0) return std::nullopt;
  return MatrixShape{layer.channels[side], elements / layer.channels[side]};
}

/// A, of all that it projects to, or B.
std::optional<MatrixShape> adapter_matrix(const Layer& layer, std::int64_t elements,
                                          std::size_t tensor) {
  for (const Adapter& adapter : layer.adapters) {
    if (tensor == adapter.parameter) return MatrixShape{adapter.rank, elements / adapter.rank};
    if (tensor == adapter.parameter + 1) return MatrixShape{elements / adapter.rank, adapter.rank};
  }
  return std::nullopt;
}

/// The router's weight, and each expert's two; where there are biases, one behind each.
std::optional<MatrixShape> expert_weight(const Layer& layer, std::int64_t elements,
                                         std::size_t tensor) {
  const ExpertGroup& experts = layer.experts;
  const std::size_t each = experts.biases ? 2 : 1;
  if (tensor < layer.parameter || (tensor - layer.parameter) % each != 0) return std::nullopt;
  switch ((tensor - layer.parameter) / each) {
    case 0:
      return MatrixShape{experts.count, elements / experts.count};
    case 1:
      return MatrixShape{experts.wide(), elements / experts.own() / experts.wide(), experts.own()};
    case 2:
      return MatrixShape{elements / experts.own() / experts.width, experts.width, experts.own()};
    case 3:
      if (experts.latent == 0) return std::nullopt;
      return MatrixShape{experts.latent, elements / experts.latent};
    case 4:
      if (experts.latent == 0) return std::nullopt;
      return MatrixShape{elements / experts.latent, experts.latent};
    default:
      return std::nullopt;
  }
}

std::optional<MatrixShape> weight_of(const Layer& layer, std::int64_t elements,
                                     std::size_t tensor) {
  switch (layer.kind) {
    case LayerKind::linear: {
      const auto adapter = adapter_matrix(layer, elements, tensor);
      return adapter ? adapter : linear_weight(layer, elements, tensor);
    }
    case LayerKind::experts:
      return expert_weight(layer, elements, tensor);
    case LayerKind::latent_heads:
      if (tensor != layer.parameter + 1) return std::nullopt;
      return MatrixShape{elements / layer.latent.key_rank, layer.latent.key_rank};
    case LayerKind::gate:
      if (tensor != layer.parameter) return std::nullopt;
      return MatrixShape{1, elements};
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<MatrixShape> hidden_matrix(const Unit& unit, std::size_t tensor) {
  if (ends_in_a_loss(unit)) return std::nullopt;
  for (const Layer& layer : unit.layers)
    if (const auto shape = weight_of(layer, unit.tensors[tensor], tensor)) return shape;
  return std::nullopt;
}

}  // namespace rehearse::inline model
