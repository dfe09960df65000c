#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/parallel.hpp"

namespace rehearse::inline model {

struct TransformerShape;

/// The degrees of a layout, as far as a model must suit them; 0: not known.
struct LayoutDegrees {
  ModelParallel model = {};
  int pipeline = 1;
  int virtual_stages = 1;
  bool even_split = true;  ///< each stage has as many blocks; else the split is given by hand
  std::int64_t micro_batches = 0;
  std::int64_t tokens = 0;      ///< of a sample
  bool fused_attention = true;  ///< of this model: fuses_attention()
  int gpus = 0;
  int nvlink_domain = 0;  ///< GPUs that NVLink joins: a node's, or a rack's
  /// Pipelines are the same ranks for experts as for all else, whatever the order of axes.
  bool stages_agree = true;
};

/// A rule that a layout breaks, or what is doubtful about it.
struct LayoutFinding {
  enum class Kind { refused, doubtful };
  Kind kind = Kind::refused;
  std::string key;      ///< the strategy's key that breaks it: "tensor_parallel"
  std::string message;  ///< "tensor_parallel 3 does not divide 32 attention heads"
  std::string remedy;   ///< "1, 2, 4, 8, 16 and 32 do"; may be empty
  std::string rule;  ///< whatever the degree: "tensor_parallel does not divide 32 attention heads"
};

/// Every rule that the layout of a model breaks, and then what is doubtful; empty: it is legal.
std::vector<LayoutFinding> layout_findings(const TransformerShape& model,
                                           const LayoutDegrees& layout);

}  // namespace rehearse::inline model
