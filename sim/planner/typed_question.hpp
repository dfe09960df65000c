#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "planner/plan.hpp"

namespace rehearse::inline planner {

/// A question that the command line asks without a file: `--model llama_3_8b --on 4xaws_p5`.
struct TypedQuestion {
  std::string model;  ///< a built-in network, or a Hugging Face config; empty: none
  std::string on;     ///< "4xaws_p5": nodes of a cluster's kind
  /// A strategy's name, or a YAML map with its options; empty: how the framework shards.
  std::string strategy = {};
  std::string batch = "1";    ///< samples per GPU
  std::string sequence;       ///< tokens of a sample; empty: the network's own
  std::string precision;      ///< empty: bf16_master, or what a captured model was captured in
  std::string framework;      ///< whose code; of a plan several, with commas; empty: the usual one
  std::string budget;         ///< a plan's, in USD; empty: none
  std::string deadline;       ///< a plan's time to train, with its unit; empty: none
  std::string fits = "fits";  ///< a plan's memory: fits, a chance ("99%") or a size
  std::string tokens;         ///< the whole training's; empty: nothing is said of it
  std::string global_batch;   ///< samples of a step, of a plan; empty: 4 Mi tokens
  std::string objective;      ///< a plan's; empty: time where a length is given, else throughput
  bool equal_loss = false;    ///< train.like says the length
};

/// The text of the question as a scenario under a name of its own, kept as if it had been read from
/// that (FilesKept, which must live).
std::filesystem::path kept_scenario(const TypedQuestion& question);

/// The plan of a question. Of a transformer on several GPUs it searches layouts, with the global
/// batch held; of anything else, strategies, batches and recomputation. The scenario is that of
/// kept_scenario(); what the plan sets in it stands in Plan::overrides, before `overrides`.
Plan typed_plan(const TypedQuestion& question, const std::vector<std::string>& overrides);

/// The machines that `--on` names, and other options as `option`: "4xaws_p5", or a map of keys.
Cluster typed_cluster(const std::string& on, const std::string& option);

/// Name of files that belong to it: "llama_3_8b_on_4xaws_p5".
std::string name_of(const TypedQuestion& question);

}  // namespace rehearse::inline planner
