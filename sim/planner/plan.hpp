#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/metric.hpp"
#include "study/study.hpp"

namespace rehearse::inline planner {

/// A limit that a candidate must keep to.
struct Constraint {
  enum class Sense { at_most, at_least, fits };
  std::string name;  ///< as in the file: "deadline"
  Metric metric = Metric::train_time;
  Sense sense = Sense::at_most;
  double limit = 0;   ///< in the metric's unit; of `fits`, each GPU has its own
  double chance = 0;  ///< of `fits`: that memory suffices, at least; 0: by the best estimate

  /// Whether a value keeps to it. `capacity` is the GPU's memory, 0 if not known.
  bool holds(double value, double capacity) const;
  /// The limit for a candidate on GPUs of this memory.
  double limit_at(double capacity) const;
  std::string words() const;  ///< "time to train at most 12 h"
};

/// One metric, or several for a Pareto front.
struct Objective {
  std::vector<Metric> metrics;
  std::string words() const;  ///< "the least time to train", "the Pareto front of ..."
};

/// A study with a question: which of its points is best?
struct Plan {
  Study study;  ///< its axes those of `vary` and what the planner tries on its own
  std::vector<Constraint> constraints;
  Objective objective;
  bool layouts = false;                   ///< `search` has `parallelism`
  std::vector<std::string> frameworks{};  ///< whose code trains the candidates
  bool framework_assumed = false;         ///< there is one, and nobody said it
  /// Words behind `rehearse run` that ask what its scenario asks: a file, or a typed question.
  std::vector<std::string> question;
  std::string
      input{};  ///< what `question` reads from its standard input: a scenario in the plan itself
  std::vector<std::string> overrides;  ///< `--set` of the scenario, a typed plan's own first
  /// Layouts that no point has: how many break a rule first, by the rule.
  std::map<std::string, std::size_t> illegal;
  /// Where the objective stands, for what is wrong with it.
  std::shared_ptr<const Document> file;
};

/// Reads a plan: a study whose `vary` may be left out, with
///
///     search: {strategies: all, options: auto}      # optional; or {parallelism: [tensor, ...]},
///                                                   # with framework: [torch, megatron] beside it
///     constraints: {memory: fits, deadline: 12h}    # optional; default: memory: fits;
///                                                   # memory: 99% of being sure that it fits
///     objective: cost                               # time, cost, throughput, energy, co2,
///                                                   # or {pareto: [time, cost]}
///
/// InputError or MissingError at the place.
Plan read_plan(const std::filesystem::path& file, const std::vector<std::string>& overrides);

/// InputError where the scenario has a mistake that the first and the last candidate have, too: it
/// is one of each, and is said before any bound. What a search makes need not suit every candidate.
void refuse_common_mistake(const Plan& plan);

/// The axes of `search`:
///
///     strategies: [ddp, fsdp, zero, ps] | all       # with the options of each
///     options: auto | all | [sharding, ...]
///
/// None where it has `parallelism`, whose axes need the scenario (add_layouts).
///
/// `auto` is what leaves a training's numbers as they are: sharding, prefetch, offload, buckets,
/// bucket_view, checkpointing. `all` takes accumulation, compression, precision, servers and
/// staleness, too.
std::vector<Axis> search_axes(const Value& search);

}  // namespace rehearse::inline planner
