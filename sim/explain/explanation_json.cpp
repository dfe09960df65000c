#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "config/json/json_record.hpp"
#include "config/json/json_text.hpp"
#include "explain/explanation.hpp"
#include "view/json_forms.hpp"

namespace rehearse::inline explanation {
namespace {

using Json = nlohmann::ordered_json;

double share(Seconds part, Seconds whole) { return whole > Seconds(0) ? part / whole : 0; }

/// A time of the critical path, and what it is of.
struct UnitTime {
  std::string unit;
  Seconds time;
  double share = 0;
};
constexpr auto json_fields(const UnitTime*) {
  return std::tuple(field("unit", &UnitTime::unit), field("s", &UnitTime::time),
                    field("share", &UnitTime::share));
}

struct RankTime {
  std::size_t rank = 0;
  Seconds time;
  double share = 0;
};
constexpr auto json_fields(const RankTime*) {
  return std::tuple(field("rank", &RankTime::rank), field("s", &RankTime::time),
                    field("share", &RankTime::share));
}

struct LinkRow {
  LinkTime link;
  double share = 0;
};
constexpr auto json_fields(const LinkRow*) {
  using Row = LinkRow;
  return std::tuple(
      derived<Row>("link", [](const Row& row) { return row.link.link; }),
      derived<Row>("where", [](const Row& row) { return row.link.where; }),
      derived<Row>("s", [](const Row& row) { return row.link.time(); }),
      field("share", &Row::share),
      derived<Row>("latency_s", [](const Row& row) { return row.link.latency; }),
      derived<Row>("bandwidth_s", [](const Row& row) { return row.link.bandwidth; }),
      derived<Row>("contention_s", [](const Row& row) { return row.link.contention; }));
}

struct Segment {
  PathRow row;
  Seconds begin;  ///< of the step that is shown
};
constexpr auto json_fields(const Segment*) {
  using One = Segment;
  return std::tuple(
      derived<One>("rank", [](const One& one) { return one.row.piece.rank.index(); }),
      derived<One>("lane", [](const One& one) { return one.row.lane; }),
      derived<One>("label", [](const One& one) { return one.row.label; }),
      derived<One>("unit", [](const One& one) { return one.row.unit; }),
      derived<One>("kind", [](const One& one) { return to_string(one.row.piece.kind); }),
      derived<One>("start_s", [](const One& one) { return one.row.piece.start - one.begin; }),
      derived<One>("duration_s", [](const One& one) { return one.row.piece.duration; }),
      derived<One>("waited_for",
                   [](const One& one) { return to_string(one.row.piece.waited_for); }));
}

JsonEntries<Seconds> by_kind(const CriticalPath& path) {
  JsonEntries<Seconds> kinds;
  for (std::size_t k = 0; k < kPathKinds; ++k)
    kinds.all.emplace_back(to_string(static_cast<PathKind>(k)), path.shares.by_kind[k]);
  return kinds;
}

std::vector<UnitTime> by_unit(const CriticalPath& path) {
  std::vector<UnitTime> list;
  for (const NamedTime& one : path.shares.by_unit)
    list.push_back({one.name, one.time, share(one.time, path.total)});
  return list;
}

std::vector<RankTime> by_rank(const CriticalPath& path) {
  std::vector<RankTime> list;
  for (const auto& [rank, time] : path.shares.by_rank)
    list.push_back({rank.index(), time, share(time, path.total)});
  return list;
}

std::vector<LinkRow> by_link(const CriticalPath& path) {
  std::vector<LinkRow> list;
  for (const LinkTime& one : path.shares.by_link)
    list.push_back({one, share(one.time(), path.total)});
  return list;
}

std::vector<Segment> segments(const CriticalPath& path) {
  std::vector<Segment> list;
  for (const PathRow& row : path.rows) list.push_back({row, path.shown_begin});
  return list;
}

struct RankRow {
  std::string program;
  RankSplit split;
};
constexpr auto json_fields(const RankRow*) {
  using Row = RankRow;
  return std::tuple(
      derived<Row>("rank", [](const Row& row) { return row.split.rank.index(); }),
      field("program", &Row::program),
      derived<Row>("step_s", [](const Row& row) { return row.split.step; }),
      derived<Row>("compute_s", [](const Row& row) { return row.split.compute; }),
      derived<Row>("exposed_communication_s",
                   [](const Row& row) { return row.split.exposed_communication; }),
      derived<Row>("hidden_communication_s",
                   [](const Row& row) { return row.split.hidden_communication; }),
      derived<Row>("idle_s", [](const Row& row) { return row.split.idle; }),
      group<Row>("idle", derived<Row>("host_s", [](const Row& row) { return row.split.host; }),
                 derived<Row>("peer_s", [](const Row& row) { return row.split.peer; }),
                 derived<Row>("server_s", [](const Row& row) { return row.split.server; })),
      derived<Row>("slack_s", [](const Row& row) { return row.split.slack; }));
}

std::vector<RankRow> rank_rows(const Explanation& explanation) {
  std::vector<RankRow> list;
  for (std::size_t r = 0; r < explanation.ranks.size(); ++r)
    list.push_back({explanation.programs[r], explanation.ranks[r]});
  return list;
}

/// A stage's bubbles wait for these.
struct BubbleWaits {
  JsonEntries<Seconds> stages, exchanges;
  Seconds host;
};
constexpr auto json_fields(const BubbleWaits*) {
  return std::tuple(field("stages_s", &BubbleWaits::stages),
                    field("exchanges", &BubbleWaits::exchanges),
                    field("host_s", &BubbleWaits::host));
}

/// A stage as a run's report has it, its step and what its bubbles wait for.
struct StageRow {
  StageReport stage;
  Seconds step;
  BubbleWaits waits;
};
constexpr auto json_fields(const StageRow*) {
  return std::tuple(included(&StageRow::stage), field("step_s", &StageRow::step),
                    field("bubble_waits_for", &StageRow::waits));
}

std::vector<StageRow> stage_rows(const StageFindings& pipeline) {
  std::vector<StageRow> list;
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i) {
    const RankSplit& rank = pipeline.waits[i];
    BubbleWaits waits{.stages = {}, .exchanges = {}, .host = rank.host};
    for (const auto& [stage, time] : rank.for_stage)
      waits.stages.all.emplace_back(std::to_string(stage), time);
    for (const auto& [axis, time] : rank.for_exchange)
      waits.exchanges.all.emplace_back(to_string(axis) + "_s", time);
    list.push_back({pipeline.stages[i], rank.step, std::move(waits)});
  }
  return list;
}

struct BubbleCause {
  NamedTime one;
};
constexpr auto json_fields(const BubbleCause*) {
  using Cause = BubbleCause;
  return std::tuple(derived<Cause>("cause", [](const Cause& cause) { return cause.one.name; }),
                    derived<Cause>("s", [](const Cause& cause) { return cause.one.time; }));
}

std::vector<BubbleCause> rows_of_causes(const StageFindings& found) {
  std::vector<BubbleCause> causes;
  for (NamedTime& one : bubble_causes(found)) causes.push_back({std::move(one)});
  return causes;
}

/// A changed run's figures, beside the run as it is.
template <class Row>
constexpr auto outcome() {
  return std::tuple(
      derived<Row>("step_time_s", [](const Row& row) { return row.one.step_time; }),
      derived<Row>("samples_per_s", [](const Row& row) { return row.one.samples_per_s; }),
      derived<Row>("saved_s", [](const Row& row) { return row.one.saved; }),
      derived<Row>("saved_share", [](const Row& row) { return row.one.saved_share; }));
}

struct OfCause {
  static constexpr const char* kKey = "cause";
};
struct OfOperation {
  static constexpr const char* kKey = "operation";
};
struct OfSetting {
  static constexpr const char* kKey = "setting";
};
/// A changed run under the word for what was changed.
template <class What>
struct Named {
  Alternative one;
  std::optional<Seconds> cumulative;
};
template <class What>
constexpr auto json_fields(const Named<What>*) {
  using Row = Named<What>;
  return std::tuple_cat(
      std::tuple(derived<Row>(What::kKey, [](const Row& row) { return row.one.name; }),
                 derived<Row>("words", [](const Row& row) { return row.one.words; })),
      outcome<Row>(), std::tuple(field_if_any("cumulative_step_time_s", &Row::cumulative)));
}
template <class What>
std::vector<Named<What>> named(const std::vector<Alternative>& alternatives) {
  std::vector<Named<What>> list;
  for (const Alternative& one : alternatives) list.push_back({one, one.cumulative});
  return list;
}

struct Worker {
  Alternative one;
};
constexpr auto json_fields(const Worker*) {
  return std::tuple_cat(
      std::tuple(derived<Worker>("rank", [](const Worker& row) { return row.one.rank.index(); })),
      outcome<Worker>());
}

struct More {
  Alternative one;
};
constexpr auto json_fields(const More*) {
  return std::tuple_cat(
      std::tuple(derived<More>("resource", [](const More& row) { return row.one.name; }),
                 derived<More>("words", [](const More& row) { return row.one.words; }),
                 derived<More>("change", [](const More& row) { return row.one.change; })),
      outcome<More>(), std::tuple(derived<More>("usd_per_million_samples", [](const More& row) {
        return row.one.usd_per_million_samples;
      })));
}

template <class Row>
std::vector<Row> each(const std::vector<Alternative>& alternatives) {
  std::vector<Row> list;
  for (const Alternative& one : alternatives) list.push_back({one});
  return list;
}

Seconds ideal_step(const Explanation& explanation) {
  return explanation.ideal ? explanation.ideal->step_time : explanation.step_time;
}

std::optional<double> slowdown(const Explanation& explanation) {
  const Seconds ideal = ideal_step(explanation);
  if (ideal <= Seconds(0)) return std::nullopt;
  return explanation.step_time / ideal;
}

std::optional<double> usd_per_million_samples(const Explanation& explanation) {
  if (!explanation.usd_per_hour) return std::nullopt;
  return *explanation.usd_per_hour / 3600 * 1e6 / explanation.samples_per_s;
}

std::optional<StageFindings> pipeline(const Explanation& explanation) {
  if (explanation.pipeline.stages.empty()) return std::nullopt;
  return explanation.pipeline;
}

}  // namespace

constexpr auto json_fields(const CriticalPath*) {
  using Path = CriticalPath;
  return std::tuple(field("total_s", &Path::total), field("steps", &Path::steps),
                    derived<Path>("by_kind", by_kind), derived<Path>("by_unit", by_unit),
                    derived<Path>("by_rank", by_rank), derived<Path>("by_link", by_link),
                    field("segments_step", &Path::shown_step), derived<Path>("segments", segments));
}

constexpr auto json_fields(const StageFindings*) {
  using Found = StageFindings;
  return std::tuple(
      derived<Found>("slowest_stage",
                     [](const Found& found) { return found.stages[found.slowest].stage; }),
      derived<Found>("stages", stage_rows), derived<Found>("bubble_causes", rows_of_causes));
}

constexpr auto json_fields(const Explanation*) {
  using One = Explanation;
  return std::tuple(
      constant<One>("schema", "rehearse.explain/1"), field("scenario", &One::scenario),
      field("description", &One::description),
      derived<One>("answer", [](const One& one) { return answer(one); }),
      field("model", &One::model), field("cluster", &One::cluster),
      field("strategy", &One::strategy), field("gpus", &One::gpus), field("nodes", &One::nodes),
      field("fidelity", &One::fidelity), field("step_time_s", &One::step_time),
      field("samples_per_s", &One::samples_per_s),
      derived<One>("usd_per_million_samples", usd_per_million_samples),
      field("critical_path", &One::path), field("collectives", &One::collectives),
      field("compute", &One::compute), derived<One>("ranks", rank_rows),
      derived<One>("pipeline", pipeline),
      group<One>("attribution", derived<One>("ideal_step_s", ideal_step),
                 derived<One>("slowdown", slowdown),
                 derived<One>("causes", [](const One& one) { return named<OfCause>(one.causes); }),
                 derived<One>("workers", [](const One& one) { return each<Worker>(one.workers); }),
                 derived<One>("operations",
                              [](const One& one) { return named<OfOperation>(one.operations); })),
      derived<One>("software", [](const One& one) { return named<OfSetting>(one.software); }),
      derived<One>("more", [](const One& one) { return each<More>(one.more); }),
      field("words", &One::words));
}

std::string to_json(const Explanation& explanation) {
  return json_text(to_json_value(explanation), 2) + "\n";
}

nlohmann::ordered_json explanation_schema() {
  return titled_schema("What bounds a run", json_schema<Explanation>());
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
