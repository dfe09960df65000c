#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "strategy/strategy.hpp"

namespace rehearse::inline strategy {

/// Keys that stand beside the kind of data parallelism.
const std::vector<std::string>& layout_keys();
/// Whether a strategy says more than how replicas keep the same parameters.
bool is_layout(const Value& strategy);
/// Whether it is a layout that Megatron-LM runs: its replicas are not FSDP's, nor its pipeline
/// PyTorch's.
bool is_megatron(const Value& strategy);
/// `{ddp: {...}, tensor_parallel: 8, pipeline_parallel: 4, pipeline: {schedule: 1f1b}, ...}`;
/// `read_data` reads the kind of data parallelism, one key, from a map. Of local_sgd, which may
/// stand beside it, nothing is read.
Layout read_layout(Map map, const std::function<Strategy(Map& map)>& read_data);

}  // namespace rehearse::inline strategy
