#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "explain/path_shares.hpp"
#include "explain/rank_split.hpp"
#include "report/report.hpp"
#include "report/run_facts.hpp"
#include "view/views.hpp"

namespace rehearse::inline explanation {

/// The run again with one thing changed.
struct Alternative {
  enum class Question : std::uint8_t { ideal, cause, worker, operation, software, more };
  Question question = Question::cause;
  std::string name;   ///< "network", "nic", "all_reduce"
  std::string words;  ///< "NIC bandwidth", "an infinite network"
  RankId rank{};      ///< of a worker
  double change = 0;  ///< of a resource: 0.1 for 10 % more, -0.0909 for a time 1.1 times as short
  Headline result{};  ///< what came out, of the iterations that it was played for
  /// Causes: the step without this one and all before it.
  std::optional<Seconds> cumulative{};

  // Beside the run as it is:
  Seconds step_time{};
  double samples_per_s = 0;
  Seconds saved{};         ///< of the step; below 0 where it takes longer
  double saved_share = 0;  ///< of the step
  std::optional<double> usd_per_million_samples{};
};

/// A piece of the critical path of one step, from the start of that step on.
struct PathRow {
  PathPiece piece;
  std::string lane, label, unit;
};
/// Critical path of the job where all ranks train in step, else the mean of all workers' own.
struct CriticalPath {
  Seconds total;  ///< of one step: the measured steps over their number
  std::uint32_t steps = 0;
  PathShares shares;
  std::uint32_t shown_step = 0;  ///< iteration whose step is nearest to the median
  Seconds shown_begin;
  std::vector<PathRow> rows;  ///< of that step
};

/// Work of the stages of a pipeline in a step, and the causes of their bubbles.
struct StageFindings {
  std::vector<StageReport> stages;  ///< in order; empty: no pipeline
  std::vector<RankSplit> waits;     ///< by stage: of its rank
  std::size_t slowest = 0;          ///< into `stages`: its own passes take longest (busy)
};
/// Time of a stage's own passes: it computes, or exchanges within a layer and computes nothing.
Seconds busy(const StageReport& stage);

/// Causes of bubbles, as the mean over stages of a step, the longest first: "stage 3 computes",
/// "messages between stages".
std::vector<NamedTime> bubble_causes(const StageFindings& pipeline);

/// Explanation of what bounds a run, and of what would change it.
struct Explanation {
  std::string scenario, description, model, cluster, strategy, fidelity;
  std::size_t gpus = 0, nodes = 0;
  Seconds step_time;
  double samples_per_s = 0;
  std::string memory;                  ///< the verdict in a sentence; empty: it fits, or is unknown
  std::optional<double> usd_per_hour;  ///< of the cluster
  CriticalPath path;
  std::vector<CollectiveReport> collectives;
  std::vector<ComputeReport> compute;
  std::vector<RankSplit> ranks;
  std::vector<std::string> programs;  ///< by `ranks`
  StageFindings pipeline;
  std::optional<Alternative> ideal;  ///< without all causes; nothing if there are none
  std::vector<Alternative> causes;   ///< in the order in which `cumulative` takes them away
  std::vector<Alternative> workers, operations, software, more;  ///< what saves most first
  std::vector<std::string> words;                                ///< what it comes to, in sentences
};

/// `base` and what `alternatives` answer are of the same iterations; `facts` are of the whole run.
Explanation explain(const RunFacts& facts, const Machine& machine, const Headline& base,
                    std::vector<Alternative> alternatives);

/// 3 to 6 sentences with numbers, and up to 3 on the stages of a pipeline.
std::vector<std::string> sentences(const Explanation& explanation);

/// A sentence or two that stand first: the bound of the step, and the best single change.
std::string answer(const Explanation& explanation);

/// `rehearse.explain/1`, two-space indented, keys in a fixed order.
std::string to_json(const Explanation& explanation);
nlohmann::ordered_json explanation_schema();
/// Gains from more of each resource: a header line and a row for each.
std::string to_csv(const Explanation& explanation);
/// Text for people: columns fit `width`; ANSI colours if `color`.
std::string to_terminal(const Explanation& explanation, int width, bool color,
                        Detail detail = Detail::all);
/// A Chrome trace (to_chrome_trace) with the path as one more process.
std::string with_critical_path(std::string trace, const Explanation& explanation);

}  // namespace rehearse::inline explanation
