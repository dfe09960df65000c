#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "framework/framework.hpp"
#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// Keys that stand beside the kind of data parallelism.
const std::vector<std::string>& layout_keys();
/// Whether a strategy says more than how replicas keep the same parameters.
bool is_layout(const Value& strategy);
/// What a strategy is read by.
struct Reading {
  Framework& framework;
  bool in_parts = false;  ///< ranks share a model: a degree is above 1
  bool is_alone = false;  ///< local_sgd without a kind beside it: a replica is one rank

  /// A mesh of ranks is played. Megatron-LM has one even of a single axis, whose replicas are kept
  /// as beside others.
  bool has_mesh() const { return in_parts || (framework.name() == "megatron" && !is_alone); }
};

/// `{ddp: {...}, tensor_parallel: 8, pipeline_parallel: 4, pipeline: {schedule: 1f1b}, ...}`;
/// `read_data` reads the kind of data parallelism, one key, from a map. Of local_sgd, which may
/// stand beside it, nothing is read.
/// Degrees of 1 are as none: the kind of data parallelism alone comes of them.
Strategy read_layout(Map map, const Reading& reading,
                     const std::function<Strategy(Map& map)>& read_data);

}  // namespace rehearse::inline strategy
