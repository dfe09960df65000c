#include "rollout/rl_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "config/json/json_text.hpp"

namespace rehearse::inline rollout {
namespace {

std::vector<RlSplit> splits_of(std::int64_t nodes, int gpus_of_node) {
  std::vector<RlSplit> splits;
  const std::vector<StalenessOptions> lags = {
      {.limit = 0},
      {.limit = 1},
      {.limit = 2},
      {.limit = 0.5, .in_flight = true},
      {.limit = 1, .in_flight = true},
      {.limit = 2, .in_flight = true},
  };
  for (std::int64_t own = 0; own < nodes; ++own)
    for (int tensor = 1; tensor <= gpus_of_node; tensor *= 2)
      for (const StalenessOptions& lag : lags)
        if (own > 0 || (lag.limit == 0 && !lag.in_flight)) splits.push_back({own, tensor, lag});
  return splits;
}

std::shared_ptr<const Document> with_split(const Document& document, std::int64_t nodes,
                                           const RlSplit& split) {
  return document.with_overrides(
      {fmt::format("cluster.nodes={}", nodes - split.generator_nodes),
       fmt::format("rl.generator.nodes={}", split.generator_nodes),
       fmt::format("rl.generator.tensor_parallel={}", split.tensor_parallel),
       fmt::format("rl.staleness={{limit: {:g}, in_flight: {}}}", split.staleness.limit,
                   split.staleness.in_flight)});
}

/// Of a message the first line, without its place.
std::string brief(const std::string& message) {
  const std::string line = message.substr(0, message.find('\n'));
  const std::size_t error = line.find("error: ");
  return error == std::string::npos ? line : line.substr(error + 7);
}

/// 0 that fit, 1 that do not, 2 that cannot be.
int rank_of(const RlPlanRow& row) { return !row.report ? 2 : row.report->fits() ? 0 : 1; }

std::string split_words(const RlSplit& split) {
  if (split.generator_nodes == 0) return "in turn";
  return fmt::format("{} apart", split.generator_nodes);
}

}  // namespace

RlPlan rl_plan(const Document& document,
               const std::function<void(std::size_t done, std::size_t all)>& progress) {
  const RlQuestion asked = read_rl_question(document, false);
  if (!generates(asked.options.algorithm))
    document.root().as_map().at_key("rl").fail(
        fmt::format("{} generates nothing, and has no splits", to_string(asked.options.algorithm)),
        "algorithm: grpo, or `rehearse run`");
  const Cluster& cluster = asked.trainer.cluster;
  if (cluster.groups.size() > 1)
    document.root().as_map().at_key("cluster").fail("splits are of nodes of one kind",
                                                    "cluster: {use: aws_p5, nodes: 2}");
  RlPlan plan{.file = asked.trainer.file, .network = asked.trainer.model.name};
  plan.nodes = cluster.groups.front().nodes + asked.options.generator.nodes;
  const std::vector<RlSplit> splits = splits_of(plan.nodes, cluster.groups.front().node.gpus);
  std::map<std::int64_t, TrainerRun> trainers;  // by the generator's nodes
  std::map<std::int64_t, std::string> impossible;
  for (const RlSplit& split : splits) {
    progress(plan.rows.size(), splits.size());
    RlPlanRow row{.split = split, .report = {}, .why = {}};
    const std::int64_t own = split.generator_nodes;
    try {
      if (impossible.contains(own)) throw InputError(impossible.at(own));
      const RlQuestion question = read_rl_question(*with_split(document, plan.nodes, split));
      if (!trainers.contains(own)) {
        try {
          trainers.emplace(own, play_trainer(question, false));
        } catch (const Error& wrong) {
          impossible.emplace(own, wrong.what());
          throw;
        }
      }
      row.report = rl_step(question, trainers.at(own));
    } catch (const InputError& wrong) {
      row.why = brief(wrong.what());
    }
    plan.rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(plan.rows, [](const RlPlanRow& a, const RlPlanRow& b) {
    if (rank_of(a) != rank_of(b)) return rank_of(a) < rank_of(b);
    if (!a.report || !b.report || a.report->step != b.report->step)
      return a.report && b.report && a.report->step < b.report->step;
    return a.split.staleness.limit <
           b.split.staleness.limit;  // of equal steps, the fresher responses
  });
  return plan;
}

std::string to_table(const RlPlan& plan, std::size_t top) {
  const auto shown = std::min(top, plan.rows.size());
  std::string text = fmt::format("{}: {} splits of {} nodes, by the time of a step\n\n",
                                 plan.network, plan.rows.size(), plan.nodes);
  text += fmt::format("{:>10} {:>4} {:>6} {:>9} {:>10} {:>11} {:>10} {:>9} {:>11} {:>12}  {}\n",
                      "generator", "TP", "limit", "in flight", "step", "tokens/s", "USD a step",
                      "mean age", "it waits", "trainer", "memory");
  for (std::size_t i = 0; i < shown; ++i) {
    const RlPlanRow& row = plan.rows[i];
    text +=
        fmt::format("{:>10} {:>4} {:>6g} {:>9} ", split_words(row.split), row.split.tensor_parallel,
                    row.split.staleness.limit, row.split.staleness.in_flight ? "yes" : "no");
    if (!row.report) {
      text += row.why + "\n";
      continue;
    }
    const RlReport& report = *row.report;
    const LagRun lag = report.lag.value_or(LagRun{});
    const auto usd = report.usd_per_step();
    const PhaseMemory* const tightest = report.tightest();
    text += fmt::format("{:>10} {:>11.0f} {:>10} {:>9.2f} {:>11} {:>12}  {}\n", format(report.step),
                        row.tokens_per_second(), usd ? fmt::format("{:.3g}", *usd) : "-",
                        lag.mean_age, format(lag.generator_waits), format(lag.trainer_waits),
                        tightest ? verdict_words(tightest->fit) : "not known");
  }
  text += "\n`it waits`: the generator for weights; `trainer`: it for responses\n";
  return text;
}

std::string to_csv(const RlPlan& plan) {
  std::string text =
      "generator_nodes,tensor_parallel,limit,in_flight,step_s,tokens_per_s,mean_age,"
      "generator_waits_s,trainer_waits_s,fits,verdict,usd_per_step,why\n";
  for (const RlPlanRow& row : plan.rows) {
    text += fmt::format("{},{},{:g},{},", row.split.generator_nodes, row.split.tensor_parallel,
                        row.split.staleness.limit, row.split.staleness.in_flight);
    const LagRun lag = row.report ? row.report->lag.value_or(LagRun{}) : LagRun{};
    if (!row.report) {
      text += fmt::format(",,,,,,,,\"{}\"\n", row.why);
      continue;
    }
    const auto usd = row.report->usd_per_step();
    text += fmt::format("{:.6g},{:.6g},{:.4g},{:.6g},{:.6g},{},{},{},\n", row.report->step.value(),
                        row.tokens_per_second(), lag.mean_age, lag.generator_waits.value(),
                        lag.trainer_waits.value(), row.report->fits(),
                        key_of(row.report->verdict()), usd ? fmt::format("{:.6g}", *usd) : "");
  }
  return text;
}

}  // namespace rehearse::inline rollout
