#include "explain/explanation.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.hpp"
#include "economy/price.hpp"
#include "report/anatomy.hpp"
#include "report/basis.hpp"
#include "report/run_facts.hpp"

namespace rehearse::inline explanation {
namespace {

using Question = Alternative::Question;

void add_identity(const Basis& basis, Explanation& result) {
  const Scenario& scenario = basis.facts.scenario;
  result.scenario = scenario.file;
  result.description = scenario.description;
  result.model = scenario.model.name;
  result.cluster = scenario.cluster.name;
  result.strategy = strategy_name(scenario.strategy);
  result.fidelity = basis.facts.fidelity;
  result.gpus = scenario.cluster.gpu_count();
  result.nodes = scenario.cluster.node_count();
  result.usd_per_hour = usd_per_hour(scenario.cluster, scenario.train.market);
  const Headline figures = headline(basis.facts);
  result.step_time = figures.step_time;
  result.samples_per_s = figures.samples_per_s;
}

/// True where every rank's iteration ends with the others'.
bool in_step(const Basis& basis) { return std::isinf(basis.common_end.value()); }

/// The measured step of these ranks whose length is nearest to the usual one.
std::uint32_t typical_step(const WaitGraph& graph, const Basis& basis,
                           const std::vector<RankId>& ranks, Seconds median) {
  std::uint32_t best = basis.first;
  Seconds least(std::numeric_limits<double>::infinity());
  for (std::uint32_t k = basis.first; k < basis.last; ++k) {
    const StepWindow window = step_window(graph, ranks, in_step(basis), k, k + 1);
    const Seconds off(std::abs((window.end - window.begin - median).value()));
    if (off < least * (1 - 1e-9)) least = off, best = k;
  }
  return best;
}

std::vector<PathRow> rows_of(const Schedule& schedule, const std::vector<PathPiece>& pieces) {
  std::vector<PathRow> rows;
  for (const PathPiece& piece : pieces) {
    const Program& program = schedule.program_of(piece.rank);
    const Op& op = program.ops[piece.op.index()];
    std::string lane = op.queue  ? schedule.queues[op.queue->index()].name
                       : op.lane ? program.lanes[op.lane->index()].name
                                 : "";
    rows.push_back({piece, std::move(lane), op.label(), unit_of(op)});
  }
  return rows;
}

/// Whose steps are followed: all ranks' as one where they train in step, else each worker's.
std::vector<std::vector<RankId>> followed(const Basis& basis) {
  if (in_step(basis)) return {basis.workers};
  std::vector<std::vector<RankId>> each;
  for (const RankId rank : basis.workers) each.push_back({rank});
  return each;
}

CriticalPath path_of(const WaitGraph& graph, const Basis& basis, const Machine& machine,
                     Seconds median) {
  const Schedule& schedule = graph.schedule();
  const auto pieces_in = [&](const StepWindow& window) {
    return pieces_of(schedule, path_back(graph, window.last_span, window.end, window.begin));
  };
  const std::vector<std::vector<RankId>> all = followed(basis);
  CriticalPath path;
  path.steps = basis.last - basis.first;
  const double steps = path.steps * static_cast<double>(all.size());
  std::vector<PathPiece> pieces;
  std::vector<Seconds> own;  // a step of each
  for (const std::vector<RankId>& ranks : all) {
    const StepWindow window = step_window(graph, ranks, in_step(basis), basis.first, basis.last);
    const std::vector<PathPiece> more = pieces_in(window);
    pieces.insert(pieces.end(), more.begin(), more.end());
    own.push_back((window.end - window.begin) / path.steps);
    path.total += (window.end - window.begin) / steps;
  }
  LinkCosts links(machine);
  path.shares = shares_of(schedule, pieces, steps, links);
  const auto off = [&](Seconds step) { return std::abs((step - path.total).value()); };
  const auto typical = std::ranges::min_element(own, {}, off) - own.begin();
  const std::vector<RankId>& shown = all[static_cast<std::size_t>(typical)];
  path.shown_step = typical_step(graph, basis, shown, in_step(basis) ? median : path.total);
  const StepWindow window =
      step_window(graph, shown, in_step(basis), path.shown_step, path.shown_step + 1);
  path.rows = rows_of(schedule, pieces_in(window));
  path.shown_begin = window.begin;
  return path;
}

/// Ratios nearer to 1 than this differ by the rounding of sums alone.
constexpr double kRounding = 1e-12;

/// Both of the same iterations, so that only their ratio counts.
void compare(const Headline& base, const Explanation& whole, Alternative& one) {
  const double exact = one.result.step_time / base.step_time;
  const double ratio = std::abs(exact - 1) < kRounding ? 1 : exact;
  one.step_time = whole.step_time * ratio;
  one.saved = whole.step_time - one.step_time;
  one.saved_share = 1 - ratio;
  one.samples_per_s = whole.samples_per_s * (one.result.samples_per_s / base.samples_per_s);
  if (one.cumulative) *one.cumulative *= whole.step_time / base.step_time;
  if (whole.usd_per_hour && one.question == Question::more)
    one.usd_per_million_samples = *whole.usd_per_hour / 3600 * 1e6 / one.samples_per_s;
}

void sort_by_saving(std::vector<Alternative>& list) {
  std::ranges::stable_sort(list, std::ranges::greater{}, &Alternative::saved_share);
}

void add_alternatives(const Headline& base, std::vector<Alternative> alternatives,
                      Explanation& result) {
  for (Alternative& one : alternatives) {
    compare(base, result, one);
    switch (one.question) {
      case Question::ideal:
        result.ideal = std::move(one);
        break;
      case Question::cause:
        result.causes.push_back(std::move(one));
        break;
      case Question::worker:
        result.workers.push_back(std::move(one));
        break;
      case Question::operation:
        result.operations.push_back(std::move(one));
        break;
      case Question::software:
        result.software.push_back(std::move(one));
        break;
      case Question::more:
        result.more.push_back(std::move(one));
        break;
    }
  }
  for (auto* list : {&result.workers, &result.operations, &result.software, &result.more})
    sort_by_saving(*list);
}

StageFindings pipeline_of(const Basis& basis, const std::vector<RankSplit>& ranks) {
  StageFindings found;
  found.stages = stages_of(basis.facts.schedule, basis.facts.trace, basis.first, basis.last);
  for (const StageReport& stage : found.stages) {
    const auto own = std::ranges::find(ranks, RankId(stage.rank), &RankSplit::rank);
    check(own != ranks.end(), "a stage whose rank does not compute");
    found.waits.push_back(*own);
  }
  if (!found.stages.empty())
    found.slowest = static_cast<std::size_t>(std::ranges::max_element(found.stages, {}, busy) -
                                             found.stages.begin());
  return found;
}

}  // namespace

Seconds busy(const StageReport& stage) {
  Seconds time = stage.compute;
  for (const auto& [axis, exposed] : stage.exposed)
    if (axis != MeshAxis::pipeline && axis != MeshAxis::data) time += exposed;
  return time;
}

std::vector<NamedTime> bubble_causes(const StageFindings& pipeline) {
  std::map<std::string, Seconds> causes;
  const double each = 1.0 / static_cast<double>(std::max<std::size_t>(1, pipeline.waits.size()));
  for (const RankSplit& rank : pipeline.waits) {
    for (const auto& [stage, time] : rank.for_stage)
      causes["stage " + std::to_string(stage) + " computes"] += each * time;
    for (const auto& [axis, time] : rank.for_exchange)
      causes[axis == MeshAxis::pipeline ? "messages between stages"
                                        : to_string(axis) + " exchanges"] += each * time;
    causes["launches of its host"] += each * rank.host;
  }
  std::vector<NamedTime> sorted;
  for (const auto& [name, time] : causes)
    if (time > Seconds(0)) sorted.push_back({name, time});
  std::ranges::stable_sort(sorted, std::ranges::greater{}, &NamedTime::time);
  return sorted;
}

Explanation explain(const RunFacts& facts, const Machine& machine, const Headline& base,
                    std::vector<Alternative> alternatives) {
  const Basis basis = basis_of(facts);
  const WaitGraph graph(facts.schedule, facts.trace);
  Explanation result;
  add_identity(basis, result);
  result.path = path_of(graph, basis, machine, result.step_time);
  result.collectives = facts.collectives;
  result.compute = facts.compute;
  result.ranks = split_ranks(graph, basis.workers, basis.first, basis.last);
  for (const RankSplit& split : result.ranks)
    result.programs.push_back(facts.schedule.program_of(split.rank).name);
  result.pipeline = pipeline_of(basis, result.ranks);
  add_alternatives(base, std::move(alternatives), result);
  result.words = sentences(result);
  if (const auto& loss = facts.scenario.train.loss; loss && !loss->line.empty())
    result.words.push_back(loss->line);
  return result;
}

}  // namespace rehearse::inline explanation
