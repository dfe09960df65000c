#include "rollout/documents.hpp"

#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include "config/json/json_count.hpp"
#include "config/json/json_record.hpp"
#include "config/json/json_text.hpp"
#include "rollout/decode_views.hpp"
#include "rollout/rl_plan.hpp"
#include "rollout/rl_step.hpp"

namespace rehearse::inline rollout {

using Row = DecodeRow;
using Table = DecodeTable;

/// A row's figures, which it has where the sequences fit.
struct RowOfTable {
  const Row* row;
  const Table* table;

  double time() const { return row->steady.time_per_output_token.value(); }
};

/// The share of sequences that have ended by a time.
struct SequenceEnd {
  double share = 0;
  Seconds at;
};

/// The part of a report that is of its generation.
struct GenerationPart {
  const RlReport* report;
};

struct LowHigh {
  Seconds low, high;
};

namespace {

/// A figure by `get`, of rows that fit.
template <class Get>
constexpr auto where_it_fits(const char* key, Get get) {
  return derived_if_any<RowOfTable>(key, [get](const RowOfTable& one) {
    return one.row->fits ? std::optional(get(one)) : std::nullopt;
  });
}

/// A count that a record holds as a number.
template <class Record>
constexpr auto counted(const char* key, double Record::*member) {
  return derived<Record>(key, [member](const Record& record) { return Count{record.*member}; });
}

/// At most this many points of a picture.
constexpr std::size_t kPoints = 200;

/// Places of some of so many, evenly, the last one too.
std::vector<std::size_t> thinned(std::size_t count) {
  std::vector<std::size_t> places;
  const std::size_t points = std::min(count, kPoints);
  for (std::size_t i = 0; i < points; ++i)
    places.push_back(count <= kPoints ? i : i * (count - 1) / (kPoints - 1));
  return places;
}

std::vector<CopyLoad> load_of(const RlReport& report) {
  std::vector<CopyLoad> some;
  for (const std::size_t at : thinned(report.last_copy.size()))
    some.push_back(report.last_copy[at]);
  return some;
}

std::vector<SequenceEnd> ends_of(const RlReport& report) {
  const auto count = static_cast<double>(report.ends.size());
  std::vector<SequenceEnd> some;
  for (const std::size_t at : thinned(report.ends.size()))
    some.push_back({static_cast<double>(at + 1) / count, report.ends[at]});
  return some;
}

double rate_of(const RlReport& report) { return report.tokens / report.step.value(); }

std::optional<std::string> verdict_key(const RlReport& report) {
  const std::string key = key_of(report.verdict());
  return key.empty() ? std::nullopt : std::optional(key);
}

std::optional<double> chance(const RlReport& report) {
  const PhaseMemory* const phase = report.tightest();
  return phase == nullptr ? std::nullopt : probability_of_fitting(phase->fit);
}

}  // namespace

// --- decoding ------------------------------------------------------------------------------------

constexpr auto json_fields(const DecodeStep*) {
  using Step = DecodeStep;
  return std::tuple(field("products", &Step::products), field("experts", &Step::experts),
                    field("cache", &Step::cache), field("head", &Step::head),
                    field("kernels", &Step::kernels), field("all_reduce", &Step::all_reduce),
                    field("host", &Step::host));
}

constexpr auto json_fields(const RowOfTable*) {
  using One = RowOfTable;
  const auto end = [](const One& one, double off) { return one.time() * std::exp(off); };
  return std::tuple(
      derived<One>("sequences", [](const One& one) { return Count{one.row->sequences}; }),
      where_it_fits("tpot_s", [](const One& one) { return one.time(); }),
      where_it_fits("low_s",
                    [end](const One& one) { return end(one, one.table->model.engine().off.low); }),
      where_it_fits("high_s",
                    [end](const One& one) { return end(one, one.table->model.engine().off.high); }),
      where_it_fits("tokens_per_s", [](const One& one) { return one.row->tokens_per_second(); }),
      where_it_fits("tokens_per_s_gpu",
                    [](const One& one) {
                      return one.row->tokens_per_second() / one.table->model.serving().ranks();
                    }),
      where_it_fits("ttft_s", [](const One& one) { return one.row->steady.time_to_first_token; }),
      where_it_fits("prompt_steps", [](const One& one) { return one.row->steady.prompt_steps; }),
      derived<One>("fits", [](const One& one) { return one.row->fits; }),
      where_it_fits("step_s", [](const One& one) { return one.row->steady.decode; }));
}

constexpr auto json_fields(const Table*) {
  return std::tuple(
      constant<Table>("schema", "rehearse.decode/1"), field("network", &Table::network),
      field("cluster", &Table::cluster),
      derived<Table>("gpu", [](const Table& table) { return table.model.gpu().name; }),
      derived<Table>("engine", [](const Table& table) { return table.model.engine().name; }),
      derived<Table>("versions", [](const Table& table) { return table.model.engine().versions; }),
      derived<Table>(
          "format",
          [](const Table& table) { return std::string(to_string(table.model.serving().format)); }),
      derived<Table>("of_16_bits",
                     [](const Table& table) {
                       return std::string(table.model.takes_fp16() ? "fp16" : "bf16");
                     }),
      derived<Table>("tensor_parallel",
                     [](const Table& table) { return table.model.serving().tensor_parallel; }),
      derived<Table>(
          "attention_data_parallel",
          [](const Table& table) { return table.model.serving().attention_data_parallel; }),
      derived<Table>("expert_parallel",
                     [](const Table& table) { return table.model.serving().expert_parallel; }),
      counted("prompt_tokens", &Table::prompt), counted("response_tokens", &Table::response),
      derived<Table>("weights_bytes", [](const Table& table) { return table.model.weights(); }),
      derived<Table>("cache_bytes_per_token",
                     [](const Table& table) { return table.model.cache_of_token(); }),
      derived<Table>("cache_bytes",
                     [](const Table& table) { return table.model.cache_memory(table.memory); }),
      counted("places", &Table::places),
      derived<Table>("generation_measured",
                     [](const Table& table) { return is_measured(table.model.gpu()); }),
      derived<Table>("rows", [](const Table& table) {
        std::vector<RowOfTable> rows;
        for (const Row& row : table.rows) rows.push_back({&row, &table});
        return rows;
      }));
}

std::string to_json(const DecodeTable& table) { return json_text(to_json_value(table), 2) + "\n"; }

nlohmann::ordered_json decode_schema() {
  return titled_schema("Decoding of a language model (rehearse.decode/1)", json_schema<Table>());
}

// --- a step of post-training ---------------------------------------------------------------------

constexpr auto json_fields(const LowHigh*) {
  return std::tuple(field("low_s", &LowHigh::low), field("high_s", &LowHigh::high));
}

constexpr auto json_fields(const RlPhase*) {
  return std::tuple(field("phase", &RlPhase::name), field("time_s", &RlPhase::time));
}

constexpr auto json_fields(const TrainerParts*) {
  using Times = TrainerParts;
  return std::tuple(field("update_s", &Times::update), field("forward_s", &Times::forward),
                    field("micro_batches", &Times::micro_batches),
                    counted("samples", &Times::samples));
}

constexpr auto json_fields(const PhaseMemory*) {
  using Phase = PhaseMemory;
  return std::tuple(
      field("phase", &Phase::phase),
      derived<Phase>("own_bytes", [](const Phase& phase) { return phase.own(); }),
      derived<Phase>("beside_bytes", [](const Phase& phase) { return phase.beside; }),
      derived<Phase>("capacity_bytes", [](const Phase& phase) { return phase.fit.capacity; }),
      derived<Phase>("verdict", [](const Phase& phase) { return key_of(phase.fit.verdict); }),
      derived_if_any<Phase>("chance_of_fitting",
                            [](const Phase& phase) { return probability_of_fitting(phase.fit); }),
      derived_if_any<Phase>("needed_interval_bytes",
                            [](const Phase& phase) { return phase.fit.interval; }),
      derived<Phase>("fits", [](const Phase& phase) { return is_likely(phase.fit); }));
}

constexpr auto json_fields(const CopyLoad*) {
  return std::tuple(field("at_s", &CopyLoad::at), counted("sequences", &CopyLoad::sequences),
                    counted("cache_tokens", &CopyLoad::cache));
}

constexpr auto json_fields(const SequenceEnd*) {
  return std::tuple(field("share", &SequenceEnd::share), field("at_s", &SequenceEnd::at));
}

constexpr auto json_fields(const GenerationPart*) {
  const auto of = [](const char* key, auto get) {
    return derived<GenerationPart>(key,
                                   [get](const GenerationPart& one) { return get(*one.report); });
  };
  return std::tuple(
      of("time_s", [](const RlReport& report) { return report.generation; }),
      of("tail_idle_s", [](const RlReport& report) { return report.first_copy_idle; }),
      of("copies", [](const RlReport& report) { return report.copies; }),
      of("cache_tokens", [](const RlReport& report) { return Count{report.places}; }),
      of("most_cache_tokens",
         [](const RlReport& report) { return Count{report.counts.most_cache}; }),
      of("generated_tokens", [](const RlReport& report) { return Count{report.counts.generated}; }),
      of("computed_tokens", [](const RlReport& report) { return Count{report.counts.computed}; }),
      of("preemptions", [](const RlReport& report) { return report.counts.preemptions; }),
      of("last_copy", load_of), of("ends", ends_of));
}

constexpr auto json_fields(const LagRun*) {
  return std::tuple(field("mean", &LagRun::mean_age), field("most", &LagRun::most_age),
                    field("shares", &LagRun::ages),
                    field("trainer_waits_s", &LagRun::trainer_waits),
                    field("generator_waits_s", &LagRun::generator_waits));
}

constexpr auto json_fields(const RlReport*) {
  using Report = RlReport;
  return std::tuple(
      constant<Report>("schema", "rehearse.rollout/1"), field("scenario", &Report::file),
      field("network", &Report::network),
      derived<Report>(
          "algorithm",
          [](const Report& report) { return std::string(to_string(report.options.algorithm)); }),
      derived<Report>("gpus", [](const Report& report) { return report.gpus(); }),
      field("trainer_gpus", &Report::trainer_gpus),
      field("generator_gpus", &Report::generator_gpus),
      derived<Report>("sequences", [](const Report& report) { return report.options.sequences(); }),
      counted("tokens", &Report::tokens), field("step_time_s", &Report::step),
      derived<Report>("tokens_per_s", rate_of),
      derived<Report>("fits", [](const Report& report) { return report.fits(); }),
      derived<Report>("verdict", verdict_key), derived_if_any<Report>("chance_of_fitting", chance),
      derived_if_any<Report>("interval",
                             [](const Report& report) {
                               std::optional<LowHigh> ends;
                               if (report.step_interval)
                                 ends = {report.step_interval->low, report.step_interval->high};
                               return ends;
                             }),
      derived_if_any<Report>("usd_per_step",
                             [](const Report& report) { return report.usd_per_step(); }),
      derived_if_any<Report>("train_time_s",
                             [](const Report& report) {
                               std::optional<Seconds> time;
                               if (report.steps)
                                 time = static_cast<double>(*report.steps) * report.step;
                               return time;
                             }),
      field("phases", &Report::phases), field("trainer", &Report::trainer),
      field("memory", &Report::memory),
      derived_if_any<Report>("generation",
                             [](const Report& report) {
                               return generates(report.options.algorithm)
                                          ? std::optional(GenerationPart{&report})
                                          : std::nullopt;
                             }),
      field_if_any("staleness", &Report::lag), field("warnings", &Report::warnings),
      field("assumptions", &Report::assumptions));
}

std::string to_json(const RlReport& report) { return json_text(to_json_value(report), 2) + "\n"; }

nlohmann::ordered_json rollout_schema() {
  return titled_schema("A step of post-training (rehearse.rollout/1)", json_schema<RlReport>());
}

// --- a plan of splits ----------------------------------------------------------------------------

constexpr auto json_fields(const RlPlanRow*) {
  using One = RlPlanRow;
  const auto of_report = [](const char* key, auto get) {
    return derived_if_any<One>(
        key, [get](const One& row) { return row.report ? std::optional(get(row)) : std::nullopt; });
  };
  return std::tuple(
      derived<One>("generator_nodes", [](const One& row) { return row.split.generator_nodes; }),
      derived<One>("tensor_parallel", [](const One& row) { return row.split.tensor_parallel; }),
      derived<One>("limit", [](const One& row) { return row.split.staleness.limit; }),
      derived<One>("in_flight", [](const One& row) { return row.split.staleness.in_flight; }),
      derived<One>("feasible", [](const One& row) { return row.report.has_value(); }),
      of_report("step_time_s", [](const One& row) { return row.report->step; }),
      of_report("tokens_per_s", [](const One& row) { return row.tokens_per_second(); }),
      of_report("fits", [](const One& row) { return row.report->fits(); }),
      derived_if_any<One>(
          "verdict",
          [](const One& row) { return row.report ? verdict_key(*row.report) : std::nullopt; }),
      derived_if_any<One>("chance_of_fitting",
                          [](const One& row) {
                            return row.report ? chance(*row.report) : std::optional<double>();
                          }),
      derived_if_any<One>(
          "usd_per_step",
          [](const One& row) { return row.report ? row.report->usd_per_step() : std::nullopt; }),
      derived_if_any<One>("mean_age",
                          [](const One& row) {
                            std::optional<double> age;
                            if (row.report && row.report->lag) age = row.report->lag->mean_age;
                            return age;
                          }),
      derived_if_any<One>("why", [](const One& row) {
        return row.report ? std::nullopt : std::optional(row.why);
      }));
}

constexpr auto json_fields(const RlPlan*) {
  return std::tuple(constant<RlPlan>("schema", "rehearse.rollout_plan/1"),
                    field("scenario", &RlPlan::file), field("network", &RlPlan::network),
                    field("nodes", &RlPlan::nodes), field("splits", &RlPlan::rows));
}

std::string to_json(const RlPlan& plan) { return json_text(to_json_value(plan), 2) + "\n"; }

nlohmann::ordered_json rollout_plan_schema() {
  return titled_schema("Splits of nodes between training and generation (rehearse.rollout_plan/1)",
                       json_schema<RlPlan>());
}

}  // namespace rehearse::inline rollout
