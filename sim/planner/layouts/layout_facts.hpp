#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "config/draft.hpp"
#include "mesh/pipeline_order.hpp"
#include "model/transformer.hpp"
#include "planner/layouts/layout_space.hpp"

namespace rehearse::inline planner {

inline constexpr std::size_t kLayoutAxes = 10;
/// By LayoutAxis; framework, recompute, compile and sharding by their place in their lists of
/// names.
using LayoutDegreesOf = std::array<int, kLayoutAxes>;

/// The places of FSDP among the kinds of sharding, and of torch among the frameworks.
inline constexpr int kFsdp = 2, kTorch = 0;

inline int& at(LayoutDegreesOf& degrees, LayoutAxis axis) {
  return degrees[static_cast<std::size_t>(axis)];
}
inline int at(const LayoutDegreesOf& degrees, LayoutAxis axis) {
  return degrees[static_cast<std::size_t>(axis)];
}

/// Facts that legality depends on, at one point of the study.
struct LayoutFacts {
  TransformerShape transformer;     ///< of a recorded network its layers alone
  std::optional<Model> recorded{};  ///< a network that is what a run's record measured
  bool fused_attention = true;
  std::int64_t tokens = 0;
  std::int64_t global_batch = 0;
  int gpus = 0, node_gpus = 0, nvlink_domain = 0;
  LayoutDegreesOf fixed{};  ///< the scenario's own
  std::optional<int> expert_tensor{};
  std::vector<int> frameworks{};  ///< by framework_names()
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  bool even_split = true;
};

/// Reads the sections model, cluster, strategy and train.global_batch. InputError there, or at
/// `parallelism`: neither a transformer nor a recorded network, no global batch.
LayoutFacts layout_facts(const Document& document, const Value& parallelism);

/// In the order in which they are tried; legal or not. `degrees` has those of the axes before.
std::vector<int> layout_choices(LayoutAxis axis, const LayoutFacts& facts,
                                const LayoutDegreesOf& degrees);
/// How replicas are kept the same: a kind of strategy with its options, "zero: {stage: 1}".
struct LayoutSharding {
  std::string name, kind;
  Draft options;
};
const std::vector<LayoutSharding>& layout_shardings();

/// The rule that a layout breaks first; empty: it is legal. `searches_stages`, `searches_experts`:
/// virtual stages and experts are among the axes.
std::string broken_rule(const LayoutDegreesOf& degrees, const LayoutFacts& facts,
                        bool searches_stages, bool searches_experts);

}  // namespace rehearse::inline planner
