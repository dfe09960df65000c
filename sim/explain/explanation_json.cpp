#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "config/json_text.hpp"
#include "explain/explanation.hpp"
#include "view/json_forms.hpp"

namespace rehearse::inline explanation {
namespace {

using Json = nlohmann::ordered_json;

template <class Number>
Json number(const std::optional<Number>& value) {
  return value ? Json(*value) : Json();
}

double share(Seconds part, Seconds whole) { return whole > Seconds(0) ? part / whole : 0; }

Json by_kind(const CriticalPath& path) {
  Json kinds = Json::object();
  for (std::size_t k = 0; k < kPathKinds; ++k)
    kinds[to_string(static_cast<PathKind>(k))] = path.shares.by_kind[k].value();
  return kinds;
}

Json by_unit(const CriticalPath& path) {
  Json list = Json::array();
  for (const NamedTime& one : path.shares.by_unit)
    list.push_back(
        {{"unit", one.name}, {"s", one.time.value()}, {"share", share(one.time, path.total)}});
  return list;
}

Json by_rank(const CriticalPath& path) {
  Json list = Json::array();
  for (const auto& [rank, time] : path.shares.by_rank)
    list.push_back(
        {{"rank", rank.index()}, {"s", time.value()}, {"share", share(time, path.total)}});
  return list;
}

Json by_link(const CriticalPath& path) {
  Json list = Json::array();
  for (const LinkTime& one : path.shares.by_link)
    list.push_back({{"link", one.link},
                    {"where", one.where},
                    {"s", one.time().value()},
                    {"share", share(one.time(), path.total)},
                    {"latency_s", one.latency.value()},
                    {"bandwidth_s", one.bandwidth.value()},
                    {"contention_s", one.contention.value()}});
  return list;
}

Json segments(const CriticalPath& path) {
  Json list = Json::array();
  for (const PathRow& row : path.rows)
    list.push_back({{"rank", row.piece.rank.index()},
                    {"lane", row.lane},
                    {"label", row.label},
                    {"unit", row.unit},
                    {"kind", to_string(row.piece.kind)},
                    {"start_s", (row.piece.start - path.shown_begin).value()},
                    {"duration_s", row.piece.duration.value()},
                    {"waited_for", to_string(row.piece.waited_for)}});
  return list;
}

Json critical_path(const CriticalPath& path) {
  return {{"total_s", path.total.value()},    {"steps", path.steps},
          {"by_kind", by_kind(path)},         {"by_unit", by_unit(path)},
          {"by_rank", by_rank(path)},         {"by_link", by_link(path)},
          {"segments_step", path.shown_step}, {"segments", segments(path)}};
}

Json ranks(const Explanation& explanation) {
  Json list = Json::array();
  for (std::size_t r = 0; r < explanation.ranks.size(); ++r) {
    const RankSplit& rank = explanation.ranks[r];
    list.push_back({{"rank", rank.rank.index()},
                    {"program", explanation.programs[r]},
                    {"step_s", rank.step.value()},
                    {"compute_s", rank.compute.value()},
                    {"exposed_communication_s", rank.exposed_communication.value()},
                    {"hidden_communication_s", rank.hidden_communication.value()},
                    {"idle_s", rank.idle.value()},
                    {"idle",
                     {{"host_s", rank.host.value()},
                      {"peer_s", rank.peer.value()},
                      {"server_s", rank.server.value()}}},
                    {"slack_s", rank.slack.value()}});
  }
  return list;
}

/// As a run's report has them, with their steps and what their bubbles wait for.
Json stages(const StageFindings& pipeline) {
  Json list = to_json_value(pipeline.stages);
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    const RankSplit& rank = pipeline.waits[i];
    Json computing = Json::object(), exchanging = Json::object();
    for (const auto& [stage, time] : rank.for_stage)
      computing[std::to_string(stage)] = time.value();
    for (const auto& [axis, time] : rank.for_exchange)
      exchanging[to_string(axis) + "_s"] = time.value();
    list[i]["step_s"] = rank.step.value();
    list[i]["bubble_waits_for"] = {
        {"stages_s", computing}, {"exchanges", exchanging}, {"host_s", rank.host.value()}};
  }
  return list;
}

Json pipeline(const StageFindings& found) {
  Json causes = Json::array();
  for (const NamedTime& one : bubble_causes(found))
    causes.push_back({{"cause", one.name}, {"s", one.time.value()}});
  return {{"slowest_stage", found.stages[found.slowest].stage},
          {"stages", stages(found)},
          {"bubble_causes", causes}};
}

void add_outcome(const Alternative& one, Json& json) {
  json["step_time_s"] = one.step_time.value();
  json["samples_per_s"] = one.samples_per_s;
  json["saved_s"] = one.saved.value();
  json["saved_share"] = one.saved_share;
}

Json named(const char* key, const std::vector<Alternative>& alternatives) {
  Json list = Json::array();
  for (const Alternative& one : alternatives) {
    Json json{{key, one.name}, {"words", one.words}};
    add_outcome(one, json);
    if (one.cumulative) json["cumulative_step_time_s"] = one.cumulative->value();
    list.push_back(std::move(json));
  }
  return list;
}

Json workers(const std::vector<Alternative>& alternatives) {
  Json list = Json::array();
  for (const Alternative& one : alternatives) {
    Json json{{"rank", one.rank.index()}};
    add_outcome(one, json);
    list.push_back(std::move(json));
  }
  return list;
}

Json attribution(const Explanation& explanation) {
  const Seconds ideal = explanation.ideal ? explanation.ideal->step_time : explanation.step_time;
  return {{"ideal_step_s", ideal.value()},
          {"slowdown", ideal > Seconds(0) ? Json(explanation.step_time / ideal) : Json()},
          {"causes", named("cause", explanation.causes)},
          {"workers", workers(explanation.workers)},
          {"operations", named("operation", explanation.operations)}};
}

Json more(const std::vector<Alternative>& alternatives) {
  Json list = Json::array();
  for (const Alternative& one : alternatives) {
    Json json{{"resource", one.name}, {"words", one.words}, {"change", one.change}};
    add_outcome(one, json);
    json["usd_per_million_samples"] = number(one.usd_per_million_samples);
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace

std::string to_json(const Explanation& explanation) {
  const Json usd = explanation.usd_per_hour
                       ? Json(*explanation.usd_per_hour / 3600 * 1e6 / explanation.samples_per_s)
                       : Json();
  const Json json{
      {"schema", "rehearse.explain/1"},
      {"scenario", explanation.scenario},
      {"description", explanation.description},
      {"answer", answer(explanation)},
      {"model", explanation.model},
      {"cluster", explanation.cluster},
      {"strategy", explanation.strategy},
      {"gpus", explanation.gpus},
      {"nodes", explanation.nodes},
      {"fidelity", explanation.fidelity},
      {"step_time_s", explanation.step_time.value()},
      {"samples_per_s", explanation.samples_per_s},
      {"usd_per_million_samples", usd},
      {"critical_path", critical_path(explanation.path)},
      {"collectives", to_json_value(explanation.collectives)},
      {"compute", to_json_value(explanation.compute)},
      {"ranks", ranks(explanation)},
      {"pipeline", explanation.pipeline.stages.empty() ? Json() : pipeline(explanation.pipeline)},
      {"attribution", attribution(explanation)},
      {"software", named("setting", explanation.software)},
      {"more", more(explanation.more)},
      {"words", explanation.words}};
  return json_text(json, 2) + "\n";
}

std::string to_csv(const Explanation& explanation) {
  std::string text =
      "resource,change,step_time_s,samples_per_s,saved_s,saved_share,usd_per_million_samples\n";
  for (const Alternative& one : explanation.more)
    text += fmt::format(
        "{},{},{},{},{},{},{}\n", one.name, one.change, one.step_time.value(), one.samples_per_s,
        one.saved.value(), one.saved_share,
        one.usd_per_million_samples ? fmt::format("{}", *one.usd_per_million_samples) : "");
  return text;
}

std::string with_critical_path(std::string trace, const Explanation& explanation) {
  constexpr std::string_view kEnd = "\n]}\n";
  trace.resize(trace.size() - kEnd.size());
  constexpr std::size_t kProcess = 1'000'000;  // after every rank
  const auto event = [&trace](const Json& json) { trace += ",\n" + json_text(json); };
  event({{"ph", "M"},
         {"name", "process_name"},
         {"pid", kProcess},
         {"args", {{"name", "critical path"}}}});
  for (const PathRow& row : explanation.path.rows) {
    const PathPiece& piece = row.piece;
    event({{"ph", "X"},
           {"pid", kProcess},
           {"tid", 0},
           {"name", row.label},
           {"cat", to_string(piece.kind)},
           {"ts", piece.start.value() * 1e6},
           {"dur", piece.duration.value() * 1e6},
           {"args",
            {{"rank", piece.rank.index()},
             {"kind", to_string(piece.kind)},
             {"waited_for", to_string(piece.waited_for)}}}});
  }
  return trace.append(kEnd);
}

}  // namespace rehearse::inline explanation
