#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/model.hpp"

namespace rehearse::inline model {

/// Units [first, second) of a model.
using UnitRange = std::pair<std::size_t, std::size_t>;

/// A part of a model that one rank of a pipeline has: the units of its stages side by side, each
/// stage a chunk (Model::chunks). Logits and further predictions that read the embeddings' weight
/// have a copy of it, where the embeddings are on another rank (Megatron-LM's shared embeddings).
/// CUDA's autocast makes fp32 of what some units hand on (Chunk::wide_input): norms are fp32 there,
/// and experts give what they are given.
/// InternalError unless the stages ascend.
Model stage_of(const Model& model, const std::vector<UnitRange>& stages);

/// Units before which a model can be cut: all that comes before is known by one tensor.
std::vector<bool> cuts_of(const Model& model);

/// Whether each unit is one of the first `count` blocks of its part.
std::vector<bool> first_blocks(const Model& model, const std::vector<UnitRange>& parts,
                               std::int64_t count);

/// Elements of the weight that the embeddings and the logits share; 0: none.
std::int64_t shared_weight(const Model& model);

/// Units that a pipeline's split counts: blocks of a transformer, else all units.
std::vector<std::size_t> counted_units(const Model& model);

/// The units of so many stages of a pipeline: blocks of a transformer in equal parts, what stands
/// before them on the first stage and what stands behind them on the last (Megatron-LM), modules of
/// multi-token prediction too, whether counted or not; of other networks units in equal parts.
/// `counts`: blocks (units) of each stage, given; empty: equal. Empty, with the reason in
/// `why_not`, where that is not possible.
std::vector<UnitRange> split_into_stages(const Model& model, std::size_t stages,
                                         const std::vector<std::int64_t>& counts,
                                         std::string& why_not);

}  // namespace rehearse::inline model
