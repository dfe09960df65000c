#pragma once

#include <cstdint>
#include <optional>

#include "model/model.hpp"

namespace rehearse::inline model {

/// A parameter tensor as matrices of one size: a linear layer's weight, or those of experts, which
/// stand in one tensor.
struct MatrixShape {
  std::int64_t rows = 0, columns = 0;
  std::int64_t count = 1;

  bool operator==(const MatrixShape&) const = default;
};

/// The shape of a hidden layer's weight, adapters' too: what Muon updates. Nothing of embeddings,
/// convolutions, vectors, and products of the unit that ends in the loss (the logits).
std::optional<MatrixShape> hidden_matrix(const Unit& unit, std::size_t tensor);

}  // namespace rehearse::inline model
