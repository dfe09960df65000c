#pragma once

#include <optional>

#include "model/model.hpp"

namespace rehearse::inline model {

/// Lengths of the documents that a sample is packed with: log-normal, cut at the sample's length.
struct Documents {
  double mean = 0, deviation = 0;  ///< tokens, before the cut
};

/// Tokens of the document that a token of a packed sample lies in, in the mean over tokens:
/// E[n^2] / E[n] of lengths n. Attention's pairs are that many for each token.
double document_of_a_token(const Documents& documents, double packed);

/// The network on samples that are full of whole documents, each of which attends to itself alone
/// (Hugging Face's packing with position ids, Megatron-LM's packed sequences): fused attention of
/// variable lengths. Activations are those of a sample of its own length. `context`: ranks that
/// each have so many equal parts of every document (Megatron-LM's and Transformer Engine's thd
/// layout).
Model packed(Model model, double document, int context = 1);
/// Document length that a model was packed with; nothing: it was not.
std::optional<double> packed_document(const Model& model);

}  // namespace rehearse::inline model
