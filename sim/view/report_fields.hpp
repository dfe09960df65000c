#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "config/json/json_record.hpp"
#include "convergence/pace.hpp"
#include "report/memory_verdict.hpp"
#include "report/prediction_interval.hpp"
#include "report/report.hpp"
#include "view/answer.hpp"
#include "view/forecast_views.hpp"
#include "view/json_forms.hpp"
#include "view/report_forms.hpp"

/// The keys of `rehearse.report/1`, in their order: one list for each record, from which the JSON
/// is written and read (config/json_record.hpp). The CSV and the messages between processes follow
/// from it.
namespace rehearse::inline view {

constexpr std::size_t json_count(const MemoryKind*) { return kMemoryKinds; }
constexpr std::size_t json_count(const WorkKind*) { return kWorks; }
constexpr std::size_t json_count(const CostFamily*) { return kCostFamilies; }
constexpr std::size_t json_count(const CostGround*) { return kCostGrounds; }

// --- records -------------------------------------------------------------------------------------

constexpr auto json_fields(const Breakdown*) {
  return std::tuple(field("compute_s", &Breakdown::compute),
                    field("exposed_communication_s", &Breakdown::exposed_communication),
                    field("hidden_communication_s", &Breakdown::hidden_communication),
                    field("idle_s", &Breakdown::idle));
}

constexpr auto json_fields(const Headline*) {
  return std::tuple(field("step_time_s", &Headline::step_time),
                    field("samples_per_s", &Headline::samples_per_s),
                    field("staleness", &Headline::staleness),
                    field("worker_step_time_s", &Headline::worker_step_time));
}

constexpr auto json_fields(const Doubt*) {
  return std::tuple(field("subject", &Doubt::subject), field("text", &Doubt::text));
}

constexpr auto json_fields(const PacedUpdates*) {
  return std::tuple(
      field("pace", &PacedUpdates::pace), field("staleness", &PacedUpdates::staleness),
      field("steps", &PacedUpdates::steps), field("whole_run", &PacedUpdates::whole_run),
      field("left_out", &PacedUpdates::left_out));
}

constexpr auto json_fields(const ActingMechanism*) {
  return std::tuple(field("name", &ActingMechanism::name), field("key", &ActingMechanism::key));
}

constexpr auto json_fields(const Mechanism*) {
  return std::tuple(field("name", &Mechanism::name), field("share", &Mechanism::share),
                    field("half_width", &Mechanism::error), field("whole", &Mechanism::whole));
}

constexpr auto json_fields(const MemoryMechanisms*) {
  return std::tuple(field("allocated", &MemoryMechanisms::allocated),
                    field("used", &MemoryMechanisms::used));
}

constexpr auto json_fields(const MemoryShare*) {
  return std::tuple(field("unit", &MemoryShare::owner), field("kind", &MemoryShare::kind),
                    field("bytes", &MemoryShare::size), field("tensors", &MemoryShare::tensors));
}

constexpr auto json_fields(const OutOfMemory*) {
  return std::tuple(field("at", &OutOfMemory::at), field("message", &OutOfMemory::message));
}

constexpr auto json_fields(const ProgramMemory*) {
  return std::tuple(field("name", &ProgramMemory::name), field("rank", &ProgramMemory::rank),
                    field("allocated_peak_bytes", &ProgramMemory::allocated_peak),
                    field("reserved_peak_bytes", &ProgramMemory::reserved_peak),
                    field("fits", &ProgramMemory::fits));
}

constexpr auto json_fields(const FittingChange*) {
  return std::tuple(
      field("change", &FittingChange::change), field("set", &FittingChange::set),
      field("changes_training", &FittingChange::changes_training),
      field("at_risk", &FittingChange::at_risk),
      field("allocated_peak_bytes", &FittingChange::allocated_peak),
      field("reserved_peak_bytes", &FittingChange::reserved_peak),
      field("used_bytes", &FittingChange::used), field("step_time_s", &FittingChange::step_time),
      field("samples_per_s", &FittingChange::samples_per_s), field("price", &FittingChange::price));
}

constexpr auto json_fields(const MemoryReport*) {
  return std::tuple(
      field("allocated_peak_bytes", &MemoryReport::allocated_peak),
      field("reserved_peak_bytes", &MemoryReport::reserved_peak),
      field_as<ByKind>("by_kind", &MemoryReport::at_peak), field("peak_at", &MemoryReport::peak_at),
      field("largest_at_peak", &MemoryReport::shares),
      derived<MemoryReport>("fragmentation_bytes",
                            [](const MemoryReport& memory) {
                              return memory.reserved_peak ? std::optional(memory.fragmentation())
                                                          : std::nullopt;
                            }),
      field("alloc_retries", &MemoryReport::alloc_retries),
      field("context_bytes", &MemoryReport::context),
      field("communicators_bytes", &MemoryReport::communicators),
      field_as<NullIfNone<Bytes>>("capacity_bytes", &MemoryReport::capacity),
      derived<MemoryReport>("used_bytes", [](const MemoryReport& memory) { return memory.used(); }),
      Fits(),
      derived<MemoryReport>("verdict",
                            [](const MemoryReport&) {
                              return std::optional<std::string>();  // Memory has it
                            }),
      // Memory has it, as the verdict.
      derived<MemoryReport>("needed_interval_bytes",
                            [](const MemoryReport&) { return std::optional<Ends<Bytes>>(); }),
      field("out_of_memory", &MemoryReport::out_of_memory),
      field("largest_batch_per_gpu", &MemoryReport::largest_batch_per_gpu),
      field("programs", &MemoryReport::programs),
      field_if_any("would_fit", &MemoryReport::would_fit));
}

constexpr auto json_fields(const StalenessReport*) {
  return std::tuple(field("mean", &StalenessReport::mean), field("p50", &StalenessReport::p50),
                    field("p99", &StalenessReport::p99), field("max", &StalenessReport::max),
                    field_as<HistogramForm>("histogram", &StalenessReport::histogram),
                    field_if_any("between_push_and_pull", &StalenessReport::between_push_and_pull));
}

constexpr auto json_fields(const SteadyReport*) {
  return std::tuple(field("reached", &SteadyReport::reached), field("from_s", &SteadyReport::begin),
                    field("to_s", &SteadyReport::end),
                    field("steps_of_slowest_worker", &SteadyReport::slowest),
                    field("throughput_error", &SteadyReport::throughput_error),
                    field("staleness_error", &SteadyReport::staleness_error));
}

constexpr auto json_fields(const CostParts*) {
  return std::tuple(field("training", &CostParts::training),
                    field("failures", &CostParts::failures), field("start", &CostParts::start),
                    field("energy", &CostParts::energy));
}

constexpr auto json_fields(const CostReport*) {
  return std::tuple(field("usd", &CostReport::usd), field("gpu_hours", &CostReport::gpu_hours),
                    field("usd_by_part", &CostReport::usd_by_part),
                    field("energy_kwh", &CostReport::energy_kwh),
                    field("co2_kg", &CostReport::co2_kg), field("prices", &CostReport::prices));
}

constexpr auto json_fields(const EnergyReport*) {
  return std::tuple(field("power_w", &EnergyReport::power_w),
                    field("gpus_w", &EnergyReport::gpus_w),
                    field("hosts_w", &EnergyReport::hosts_w), field("pue_w", &EnergyReport::pue_w),
                    field("step_j", &EnergyReport::step_j));
}

constexpr auto json_fields(const GoodputReport*) {
  return std::tuple(
      field("share", &GoodputReport::share),
      field("expected_time_s", &GoodputReport::expected_time),
      field("expected_time_spread_s", &GoodputReport::expected_time_spread),
      TimeOfFailures{"checkpoint_interval_s", &GoodputReport::checkpoint_interval},
      TimeOfFailures{"checkpoint_write_s", &GoodputReport::checkpoint_write},
      TimeOfFailures{"young_daly_s", &GoodputReport::young},
      TimeOfFailures{"daly_higher_order_s", &GoodputReport::daly},
      TimeOfFailures{"job_mtbf_s", &GoodputReport::job_mtbf},
      field("failures_expected", &GoodputReport::failures),
      field("checkpoints_expected", &GoodputReport::checkpoints),
      field("checkpoint_s", &GoodputReport::checkpoint_time), field("lost_s", &GoodputReport::lost),
      field("recovery_s", &GoodputReport::recovery), field("waiting_s", &GoodputReport::waiting),
      field("slower_s", &GoodputReport::slower), field("start_s", &GoodputReport::start),
      OneOfTwo<GoodputReport>{"expectation", &GoodputReport::exact, "closed form",
                              "mean of the trainings played"},
      field("trainings", &GoodputReport::trainings));
}

constexpr auto json_fields(const StartReport*) {
  return std::tuple(OneOfTwo<StartReport>{"mode", &StartReport::elastic, "elastic", "gang"},
                    field("first_step_s", &StartReport::first_step),
                    field("all_there_s", &StartReport::all_there),
                    field("all_there_spread_s", &StartReport::all_there_spread),
                    field("delay_s", &StartReport::delay),
                    field("samples_meanwhile", &StartReport::samples_meanwhile));
}

constexpr auto json_fields(const CoresReport*) {
  return std::tuple(
      field("threads", &CoresReport::threads), field("cores", &CoresReport::cores),
      derived<CoresReport>("oversubscribed",
                           [](const CoresReport& cores) { return cores.oversubscribed(); }),
      field("ready_s", &CoresReport::ready),
      field("recorded_ready_s", &CoresReport::recorded_ready),
      field("recorded_step_s", &CoresReport::recorded_step));
}

constexpr auto json_fields(const OtherJobReport*) {
  return std::tuple(field("model", &OtherJobReport::model),
                    field("strategy", &OtherJobReport::strategy),
                    field("nodes", &OtherJobReport::nodes), field("steps", &OtherJobReport::steps),
                    field("step_time_s", &OtherJobReport::step_time));
}

constexpr auto json_fields(const CollectiveReport*) {
  return std::tuple(
      field("collective", &CollectiveReport::kind), field("ranks", &CollectiveReport::ranks),
      field("nodes", &CollectiveReport::nodes),
      field_as<AsNumber>("bytes", &CollectiveReport::size),
      field("count", &CollectiveReport::count), field("time_s", &CollectiveReport::time),
      EndsUnder<CollectiveReport, Seconds>{"low_s", "high_s", &CollectiveReport::interval},
      field_as<InGiga<BytesPerSecond>>("busbw_GBps", &CollectiveReport::busbw),
      field("algorithm", &CollectiveReport::algorithm),
      field("protocol", &CollectiveReport::protocol),
      field("answered_by", &CollectiveReport::answered_by),
      field("outside", &CollectiveReport::outside));
}

constexpr auto json_fields(const StageReport*) {
  return std::tuple(field("stage", &StageReport::stage), field("rank", &StageReport::rank),
                    field("compute_s", &StageReport::compute),
                    field_as<ByAxis>("exposed_communication", &StageReport::exposed),
                    group<StageReport>("bubble", field("warm_up_s", &StageReport::warm_up),
                                       field("steady_s", &StageReport::steady),
                                       field("cool_down_s", &StageReport::cool_down)));
}

constexpr auto json_fields(const FamilyReport*) {
  return std::tuple(
      field("family", &FamilyReport::family), field("ground", &FamilyReport::ground),
      field("from", &FamilyReport::from), field("off", &FamilyReport::off),
      field("forward_s", &FamilyReport::forward), field("backward_s", &FamilyReport::backward),
      derived<FamilyReport>("share", [](const FamilyReport&) { return std::optional<double>(); }),
      WithinMeasured(), field_as<NullIfNone<double>>("farthest", &FamilyReport::farthest));
}

constexpr auto json_fields(const UnitReport*) {
  return std::tuple(field("first", &UnitReport::first), field("last", &UnitReport::last),
                    field("count", &UnitReport::count), field("forward_s", &UnitReport::forward),
                    field("backward_s", &UnitReport::backward),
                    field_as<ByGround>("grounds", &UnitReport::grounds),
                    field("within_measured", &UnitReport::within_measured),
                    field_as<NullIfNone<double>>("farthest", &UnitReport::farthest));
}

/// The families of kernels, with the share of each in all of them but the optimizer's.
struct Families {
  void write(const ComputeReport& compute, OrderedJson& json) const {
    Seconds whole(0);
    for (const FamilyReport& one : compute.families)
      if (one.family != CostFamily::optimizer) whole += one.total();
    OrderedJson& list = json["families"] = to_json_value(compute.families);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const FamilyReport& one = compute.families[i];
      if (one.family == CostFamily::optimizer) continue;
      list[i]["share"] = whole > Seconds(0) ? std::min(1.0, one.total() / whole) : 0.0;
    }
  }
  void read(const JsonPlace& place, ComputeReport& compute) const {
    compute.families = from_json_value<std::vector<FamilyReport>>(place.at("families"));
  }
  void describe(JsonKeys& keys) const {
    keys.add("families", json_schema<std::vector<FamilyReport>>());
  }
};

constexpr auto json_fields(const ComputeReport*) {
  return std::tuple(field("gpu", &ComputeReport::gpu), Families(),
                    field("units", &ComputeReport::units));
}

constexpr auto json_fields(const ArchitectureReport*) {
  return std::tuple(field_as<NullIfNone<std::string>>("family", &ArchitectureReport::family),
                    field("layers", &ArchitectureReport::layers),
                    field("parameters", &ArchitectureReport::parameters),
                    field("active_parameters", &ArchitectureReport::active_parameters),
                    field("trainable_parameters", &ArchitectureReport::trainable_parameters),
                    field("flops_forward", &ArchitectureReport::flops_forward));
}

constexpr auto json_fields(const FrameworkSetting*) {
  return std::tuple(field("key", &FrameworkSetting::key), field("value", &FrameworkSetting::value),
                    field("source", &FrameworkSetting::source));
}

constexpr auto json_fields(const FrameworkChoice*) {
  return std::tuple(field("name", &FrameworkChoice::name), field("title", &FrameworkChoice::title),
                    field("version", &FrameworkChoice::version),
                    field("said", &FrameworkChoice::said), field("line", &FrameworkChoice::line),
                    field("set", &FrameworkChoice::set));
}

/// The memory, and the verdict on it, which the interval of the bytes needed decides.
struct Memory {
  void write(const Report& report, OrderedJson& json) const {
    OrderedJson& memory = json["memory"] = to_json_value(report.memory);
    const std::optional<MemoryFit> fit = memory_fit(report);
    if (fit && fit->verdict != MemoryVerdict::unknown) memory["verdict"] = key_of(fit->verdict);
    if (fit && fit->interval)
      memory["needed_interval_bytes"] = {fit->interval->low.value(), fit->interval->high.value()};
  }
  void read(const JsonPlace& place, Report& report) const {
    report.memory = from_json_value<std::optional<MemoryReport>>(place.at("memory"));
  }
  void describe(JsonKeys& keys) const {
    keys.add("memory", json_schema<std::optional<MemoryReport>>());
  }
};

constexpr auto json_fields(const Report*) {
  return std::tuple(
      field("scenario", &Report::scenario), field("description", &Report::description),
      derived<Report>("answer", [](const Report& report) { return answer(report); }),
      field("model", &Report::model), field("architecture", &Report::architecture),
      field("cluster", &Report::cluster), field("strategy", &Report::strategy),
      field("framework", &Report::framework), field("precision", &Report::precision),
      field_if_any("param_dtype", &Report::param_dtype),
      field("batch_per_gpu", &Report::batch_per_gpu), field("global_batch", &Report::global_batch),
      field("ranks", &Report::ranks), field("nodes", &Report::nodes), field("work", &Report::work),
      field("fidelity", &Report::fidelity),

      field("step_time_s", &Report::step_time),
      derived<Report>("step_time_interval_s",
                      [](const Report& report) { return interval_of(report, "step_time_s"); }),
      field("step_time_spread_s", &Report::step_time_spread),
      field("worker_step_time_s", &Report::worker_step_time),
      field("worker_step_times_s", &Report::worker_step_times),
      field("samples_per_s", &Report::samples_per_s), field("tokens_per_s", &Report::tokens_per_s),
      field("tokens_per_s_per_gpu", &Report::tokens_per_s_per_gpu),
      field("model_tflops_per_gpu", &Report::model_tflops_per_gpu),
      field("steady_state", &Report::steady), field("epoch_time_s", &Report::epoch_time),
      field("train_time_s", &Report::train_time), field("breakdown", &Report::breakdown),
      field("gpu_utilization", &Report::gpu_utilization), field("mfu", &Report::mfu),
      field("mfu_all_pairs", &Report::mfu_all_pairs), field_if_any("stages", &Report::stages),
      field("hfu", &Report::hfu), Memory(), field("staleness", &Report::staleness),
      field("collectives", &Report::collectives), field_if_any("cores", &Report::cores),
      field("step_time_alone_s", &Report::step_time_alone),
      field("other_jobs", &Report::other_jobs), field("accuracy", &Report::accuracy),
      field("accuracy_from", &Report::accuracy_from),
      field_if_any("routing_taken", &Report::routing_taken),
      field_if_any("acting", &Report::acting), field_if_any("loss", &Report::loss),
      field("cost", &Report::cost), field("energy", &Report::energy),
      field("goodput", &Report::goodput), field("start", &Report::start),
      field_as<IntervalsForm>("intervals", &Report::intervals),
      group<Report>("interval_basis", field("time", &Report::mechanisms),
                    field("memory", &Report::memory_mechanisms)),

      field("bottleneck", &Report::bottleneck), field("provenance", &Report::provenance),
      field("compute", &Report::compute),
      field("outside_calibration", &Report::outside_calibration),
      field("assumptions", &Report::assumptions), field("seed", &Report::seed),
      field("replications", &Report::replications),
      field("replications_error", &Report::replications_error),
      field("versions", &Report::versions));
}

}  // namespace rehearse::inline view

namespace rehearse::inline config {

template <>
struct JsonForm<StrategyForecast> {
  static OrderedJson write(const StrategyForecast& told) { return json_view(told); }
  static StrategyForecast read(const JsonPlace& place) { return strategy_forecast(place); }
  static OrderedJson schema() { return {{"type", "object"}}; }
};

}  // namespace rehearse::inline config
