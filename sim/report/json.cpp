#include <cmath>

#include "report/answer.hpp"
#include "report/collectives.hpp"
#include "report/compute_grounds.hpp"
#include "report/cost_views.hpp"
#include "report/forecast_views.hpp"
#include "report/json_view.hpp"
#include "report/memory_verdict.hpp"
#include "report/prediction_interval.hpp"
#include "report/stage_view.hpp"
#include "report/views.hpp"
#include "report/would_fit.hpp"

namespace rehearse::inline report {
namespace {

using Json = nlohmann::ordered_json;

/// Whole numbers of bytes as integers; a fraction (a third of a tensor) stays one.
Json bytes(Bytes size) {
  const double value = size.value();
  if (value == std::floor(value) && std::abs(value) < 0x1p53)
    return static_cast<std::int64_t>(value);
  return value;
}

Json seconds(const std::optional<Seconds>& time) { return time ? Json(time->value()) : Json(); }

template <class Number>
Json number(const std::optional<Number>& value) {
  return value ? Json(*value) : Json();
}

Json breakdown(const Breakdown& parts) {
  return {{"compute_s", parts.compute.value()},
          {"exposed_communication_s", parts.exposed_communication.value()},
          {"hidden_communication_s", parts.hidden_communication.value()},
          {"idle_s", parts.idle.value()}};
}

Json shares(const std::vector<MemoryShare>& all) {
  Json list = Json::array();
  for (const MemoryShare& share : all) {
    list.push_back({{"unit", share.owner},
                    {"kind", to_string(share.kind)},
                    {"bytes", bytes(share.size)},
                    {"tensors", share.tensors}});
  }
  return list;
}

Json out_of_memory(const std::optional<OutOfMemory>& where) {
  if (!where) return nullptr;
  return {{"at", where->at}, {"message", where->message}};
}

Json programs(const std::vector<ProgramMemory>& all) {
  Json list = Json::array();
  for (const ProgramMemory& one : all) {
    list.push_back({{"name", one.name},
                    {"rank", one.rank},
                    {"allocated_peak_bytes", bytes(one.allocated_peak)},
                    {"reserved_peak_bytes", one.reserved_peak ? bytes(*one.reserved_peak) : Json()},
                    {"fits", one.fits}});
  }
  return list;
}

Json memory(const Report& report) {
  const std::optional<MemoryReport>& memory = report.memory;
  if (!memory) return nullptr;
  const MemoryFit fit = *memory_fit(report);
  Json by_kind = Json::object();
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind) {
    by_kind[to_string(static_cast<MemoryKind>(kind)) + "_bytes"] =
        bytes(memory->at_peak.by_kind[kind]);
  }
  Json all = {
      {"allocated_peak_bytes", bytes(memory->allocated_peak)},
      {"reserved_peak_bytes", memory->reserved_peak ? bytes(*memory->reserved_peak) : Json()},
      {"by_kind", by_kind},
      {"peak_at", memory->peak_at},
      {"largest_at_peak", shares(memory->shares)},
      {"fragmentation_bytes", memory->reserved_peak ? bytes(memory->fragmentation()) : Json()},
      {"alloc_retries", memory->alloc_retries},
      {"context_bytes", bytes(memory->context)},
      {"communicators_bytes", bytes(memory->communicators)},
      {"capacity_bytes", memory->capacity == Bytes(0) ? Json() : bytes(memory->capacity)},
      {"used_bytes", bytes(memory->used())},
      {"fits", memory->capacity == Bytes(0) ? Json() : Json(memory->fits)},
      {"verdict", fit.verdict == MemoryVerdict::unknown ? Json() : Json(key_of(fit.verdict))},
      {"out_of_memory", out_of_memory(memory->out_of_memory)},
      {"largest_batch_per_gpu", number(memory->largest_batch_per_gpu)},
      {"programs", programs(memory->programs)}};
  if (memory->would_fit) all["would_fit"] = json_view(*memory->would_fit);
  return all;
}

Json staleness(const std::optional<StalenessReport>& staleness) {
  if (!staleness) return nullptr;
  Json histogram = Json::object();
  for (const auto& [value, updates] : staleness->histogram)
    histogram[std::to_string(value)] = updates;
  return {{"mean", staleness->mean},
          {"p50", staleness->p50},
          {"p99", staleness->p99},
          {"max", staleness->max},
          {"histogram", histogram}};
}

Json times(const std::vector<Seconds>& all) {
  Json list = Json::array();
  for (const Seconds time : all) list.push_back(time.value());
  return list;
}

Json steady_state(const std::optional<SteadyReport>& steady) {
  if (!steady) return nullptr;
  return {{"reached", steady->reached},
          {"from_s", steady->begin.value()},
          {"to_s", steady->end.value()},
          {"steps_of_slowest_worker", steady->slowest},
          {"throughput_error", steady->throughput_error},
          {"staleness_error", steady->staleness_error}};
}

Json bounds(const Ends<double>& ends) { return Json::array({ends.low, ends.high}); }

Json intervals(const std::vector<KeyBounds>& all) {
  Json json = Json::object();
  for (const KeyBounds& one : all) json[one.key] = bounds(one.bounds);
  return json;
}

Json interval_basis(const std::optional<IntervalBasis>& basis) {
  if (!basis) return nullptr;
  return {{"group", basis->group}, {"factor", basis->factor}};
}

Json architecture(const ArchitectureReport& network) {
  return {{"family", network.family.empty() ? Json() : Json(network.family)},
          {"layers", network.layers},
          {"parameters", network.parameters},
          {"active_parameters", network.active_parameters},
          {"trainable_parameters", network.trainable_parameters},
          {"flops_forward", number(network.flops_forward)}};
}

Json framework(const FrameworkChoice& choice) {
  Json set = Json::array();
  for (const FrameworkSetting& one : choice.set)
    set.push_back({{"key", one.key}, {"value", one.value}, {"source", one.source}});
  return {{"name", choice.name}, {"title", choice.title}, {"version", choice.version},
          {"said", choice.said}, {"line", choice.line},   {"set", set}};
}

void add_identity(const Report& report, Json& json) {
  json["schema"] = "rehearse.report/1";
  json["scenario"] = report.scenario;
  json["description"] = report.description;
  json["answer"] = answer(report);
  json["model"] = report.model;
  json["architecture"] = architecture(report.architecture);
  json["cluster"] = report.cluster;
  json["strategy"] = report.strategy;
  json["framework"] = framework(report.framework);
  json["precision"] = report.precision;
  json["batch_per_gpu"] = report.batch_per_gpu;
  json["global_batch"] = report.global_batch;
  json["ranks"] = report.ranks;
  json["nodes"] = report.nodes;
  json["fidelity"] = report.fidelity;
}

Json other_jobs(const std::vector<OtherJobReport>& jobs) {
  Json list = Json::array();
  for (const OtherJobReport& job : jobs)
    list.push_back({{"model", job.model},
                    {"strategy", job.strategy},
                    {"nodes", job.nodes},
                    {"steps", job.steps},
                    {"step_time_s", seconds(job.step_time)}});
  return list;
}

void add_answers(const Report& report, Json& json) {
  json["step_time_s"] = report.step_time.value();
  const std::optional<Ends<double>> interval = interval_of(report, "step_time_s");
  json["step_time_interval_s"] = interval ? bounds(*interval) : Json();
  json["step_time_spread_s"] =
      bounds({report.step_time_spread.low.value(), report.step_time_spread.high.value()});
  json["worker_step_time_s"] = seconds(report.worker_step_time);
  json["worker_step_times_s"] = times(report.worker_step_times);
  json["samples_per_s"] = report.samples_per_s;
  json["tokens_per_s"] = number(report.tokens_per_s);
  json["tokens_per_s_per_gpu"] = number(report.tokens_per_s_per_gpu);
  json["model_tflops_per_gpu"] = number(report.model_tflops_per_gpu);
  json["steady_state"] = steady_state(report.steady);
  json["epoch_time_s"] = seconds(report.epoch_time);
  json["train_time_s"] = seconds(report.train_time);
  json["breakdown"] = breakdown(report.breakdown);
  json["gpu_utilization"] = report.gpu_utilization;
  json["mfu"] = number(report.mfu);
  json["mfu_all_pairs"] = number(report.mfu_all_pairs);
  if (!report.stages.empty()) json["stages"] = json_view(report.stages);
  json["hfu"] = number(report.hfu);
  json["memory"] = memory(report);
  json["staleness"] = staleness(report.staleness);
  json["collectives"] = json_view(report.collectives);
  json["step_time_alone_s"] = seconds(report.step_time_alone);
  json["other_jobs"] = other_jobs(report.other_jobs);
  json["accuracy"] = report.accuracy ? json_view(*report.accuracy) : Json();
  json["accuracy_from"] = report.accuracy_from;
  json["cost"] = cost_json(report.cost);
  json["energy"] = energy_json(report.energy);
  json["goodput"] = goodput_json(report.goodput);
  json["start"] = start_json(report.start);
  json["intervals"] = intervals(report.intervals);
  json["interval_basis"] = {{"time", interval_basis(report.time_basis)},
                            {"memory", interval_basis(report.memory_basis)},
                            {"used_memory", interval_basis(report.used_basis)}};
}

void add_grounds(const Report& report, Json& json) {
  json["bottleneck"] = report.bottleneck;
  json["provenance"] = report.provenance;
  json["compute"] = json_view(report.compute);
  json["outside_calibration"] = report.outside_calibration;
  json["assumptions"] = report.assumptions;
  json["seed"] = report.seed;
  json["replications"] = report.replications;
  json["replications_error"] = number(report.replications_error);
  json["versions"] = report.versions;
}

}  // namespace

Json json_view(const Report& report) {
  Json json;
  add_identity(report, json);
  add_answers(report, json);
  add_grounds(report, json);
  return json;
}

std::string to_json(const Report& report) { return json_view(report).dump(2) + "\n"; }

}  // namespace rehearse::inline report
