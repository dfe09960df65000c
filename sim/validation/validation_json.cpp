// `rehearse.validation/2`: how predictions came out, by lists of fields, which are its schema.
#include <tuple>
#include <variant>

#include "config/json/json_record.hpp"
#include "config/json/json_text.hpp"
#include "validation/cells.hpp"
#include "validation/scoreboard.hpp"
#include "validation/views.hpp"

namespace rehearse::inline validation {
namespace {

struct MechanismPart {
  double share = 0, half_width = 0;
};
constexpr auto json_fields(const MechanismPart*) {
  return std::tuple(field("share", &MechanismPart::share),
                    field("half_width", &MechanismPart::half_width));
}

/// A mean over runs, of which there is one.
struct MeanPart {
  std::size_t runs = 0;
  double mean = 0;
  std::optional<double> error = {};
};
constexpr auto json_fields(const MeanPart*) {
  return std::tuple(field("runs", &MeanPart::runs), field("mean", &MeanPart::mean),
                    field("standard_error", &MeanPart::error));
}
std::optional<MeanPart> part_of(const MeanEnd& end) {
  if (end.runs == 0) return std::nullopt;
  return MeanPart{end.runs, end.mean, end.error};
}

bool is_verdict(const ComparedMetric& one) { return one.kind() == ErrorKind::verdict; }
bool is_number(const ComparedMetric& one) {
  return !is_verdict(one) && one.kind() != ErrorKind::distance;
}

/// A figure that metrics have for which `has` is true.
template <class Has, class Get>
constexpr auto where(const char* key, Has has, Get get) {
  return derived_if_any<ComparedMetric>(key, [has, get](const ComparedMetric& one) {
    return has(one) ? std::make_optional(get(one)) : std::nullopt;
  });
}

/// The error, under the key of its kind.
template <ErrorKind kKind>
constexpr auto error_of(const char* key) {
  return where(
      key, [](const ComparedMetric& one) { return one.kind() == kKind; },
      [](const ComparedMetric& one) { return one.error; });
}

/// A number, or of verdicts whether it is above 0; nothing of distances.
template <double ComparedMetric::*kMember>
constexpr auto value_of(const char* key) {
  using Either = std::variant<double, bool>;
  return where(
      key, [](const ComparedMetric& one) { return one.kind() != ErrorKind::distance; },
      [](const ComparedMetric& one) {
        return is_verdict(one) ? Either(one.*kMember > 0) : Either(one.*kMember);
      });
}

}  // namespace

constexpr auto json_fields(const Coverage*) {
  return std::tuple(field("inside", &Coverage::inside), field("intervals", &Coverage::intervals));
}

constexpr auto json_fields(const ComparedMetric*) {
  using One = ComparedMetric;
  return std::tuple(
      field("metric", &One::metric), field("group", &One::group),
      where(
          "by", [](const One& one) { return !one.by.empty(); },
          [](const One& one) { return one.by; }),
      value_of<&One::predicted>("predicted"), value_of<&One::measured>("measured"),
      where("right", is_verdict, [](const One& one) { return one.error == 0; }),
      derived_if_any<One>("fits_probability", [](const One& one) { return one.fits_chance; }),
      where(
          "verdict", [](const One& one) { return one.odds.has_value(); },
          [](const One& one) { return one.odds->verdict; }),
      where(
          "failure_probability", [](const One& one) { return one.odds.has_value(); },
          [](const One& one) { return one.odds->failure_probability; }),
      where("interval", is_number, [](const One& one) { return one.interval; }),
      where("inside", is_number, [](const One& one) { return one.inside(); }),
      where(
          "mechanisms", [](const One& one) { return is_number(one) && !one.mechanisms.empty(); },
          [](const One& one) {
            JsonEntries<MechanismPart> all;
            for (const Mechanism& of : one.mechanisms)
              all.all.emplace_back(of.name, MechanismPart{of.share, of.error});
            return all;
          }),
      derived_if_any<One>("predicted_mean", [](const One& one) { return one.mean; }),
      error_of<ErrorKind::relative>("relative_error"),
      error_of<ErrorKind::difference>("difference"), error_of<ErrorKind::distance>("distance"),
      error_of<ErrorKind::points>("points"),
      where(
          "curve", [](const One& one) { return one.points > 0; },
          [](const One& one) {
            return Coverage{one.points_inside, one.points};
          }));
}

namespace {

/// A case, and how it came out.
struct CasePart {
  const ValidationCase* one;
  const ComparedCase* compared;
};
constexpr auto json_fields(const CasePart*) {
  using One = CasePart;
  return std::tuple(
      derived<One>("name", [](const One& part) { return part.one->name; }),
      derived<One>("strategy", [](const One& part) { return part.compared->strategy; }),
      derived<One>("held_out", [](const One& part) { return part.one->held_out; }),
      derived<One>("note", [](const One& part) { return part.one->note; }),
      derived<One>("metrics", [](const One& part) { return part.compared->metrics; }),
      derived<One>("failure", [](const One& part) { return part.compared->failure; }));
}

std::vector<CasePart> cases_of(const ComparedFile& compared) {
  std::vector<CasePart> parts;
  for (std::size_t i = 0; i < compared.cases.size(); ++i)
    parts.push_back({&compared.file.cases[i], &compared.cases[i]});
  return parts;
}

}  // namespace

constexpr auto json_fields(const NotPredicted::Case*) {
  using One = NotPredicted::Case;
  return std::tuple(field("name", &One::name), field("metric", &One::metric),
                    field("published", &One::published),
                    derived_if_any<One>("why", [](const One& one) {
                      return one.why.empty() ? std::nullopt : std::optional(one.why);
                    }));
}
constexpr auto json_fields(const NotPredicted*) {
  return std::tuple(field("why", &NotPredicted::why), field("cases", &NotPredicted::cases));
}

constexpr auto json_fields(const ComparedFile*) {
  using One = ComparedFile;
  return std::tuple(derived<One>("set", [](const One& one) { return one.file.name; }),
                    derived<One>("source", [](const One& one) { return one.file.source; }),
                    derived<One>("calibrated", [](const One& one) { return one.file.calibrated; }),
                    derived<One>("measured", [](const One& one) { return measured_on(one.file); }),
                    derived<One>("cases", cases_of),
                    derived<One>("not_predicted", [](const One& one) {
                      const NotPredicted& others = one.file.not_predicted;
                      return others.cases.empty() ? std::nullopt : std::optional(others);
                    }));
}

constexpr auto json_fields(const ErrorSummary*) {
  using One = ErrorSummary;
  return std::tuple(field("group", &One::group), field("strategy", &One::strategy),
                    field("numbers", &One::cases), field("mean", &One::mean),
                    field("median", &One::median), field("p90", &One::p90), field("max", &One::max),
                    field("coverage", &One::coverage),
                    field_if_any("largest_distance", &One::largest_distance));
}

constexpr auto json_fields(const AccuracySummary*) {
  using One = AccuracySummary;
  return std::tuple(
      field("group", &One::group), field("by", &One::by), field("runs", &One::runs),
      field("mean_points", &One::mean), field("max_points", &One::max),
      group<One>("worst_setting", field("setting", &One::setting),
                 field("mean_points", &One::worst_setting)),
      field("coverage", &One::coverage), field("curve_coverage", &One::points),
      group<One>("verdicts", field("right", &One::right), field("all", &One::verdicts)));
}

constexpr auto json_fields(const FailureSummary*) {
  using One = FailureSummary;
  return std::tuple(field("verdict", &One::verdict), field("runs", &One::runs),
                    field("expected_to_fail", &One::expected),
                    field("standard_deviation", &One::deviation), field("failed", &One::failed));
}

constexpr auto json_fields(const EndsSummary*) {
  using One = EndsSummary;
  return std::tuple(
      group<One>("failed", derived<One>("some", [](const One& one) { return one.failed.some; }),
                 derived<One>("all", [](const One& one) { return one.failed.all; })),
      derived<One>("all", [](const One& one) { return part_of(one.all); }),
      derived<One>("trained", [](const One& one) { return part_of(one.trained); }));
}

constexpr auto json_fields(const SettingSummary*) {
  using One = SettingSummary;
  return std::tuple(field("group", &One::group), field("setting", &One::setting),
                    field("real", &One::real), field("replays", &One::replays),
                    field("same_failures", &One::same_failures), field("within", &One::within),
                    field("expected_within", &One::expected_within));
}

constexpr auto json_fields(const RankingSummary*) {
  using One = RankingSummary;
  return std::tuple(field("rivals", &One::rivals), field("cases", &One::cases),
                    field("kendall_tau_b", &One::tau), field("regret", &One::regret),
                    field("predicted_best", &One::first), field("measured_best", &One::best));
}

constexpr auto json_fields(const FitSummary*) {
  using One = FitSummary;
  return std::tuple(
      field("set", &One::set),
      group<One>("fit", field("right", &One::fit_right), field("wrong", &One::fit_wrong)),
      group<One>("out_of_memory", field("right", &One::oom_right), field("wrong", &One::oom_wrong)),
      derived<One>("f1_fits", [](const One& one) { return one.f1_fits(); }),
      derived<One>("f1_out_of_memory", [](const One& one) { return one.f1_oom(); }));
}

constexpr auto json_fields(const FitBin*) {
  using One = FitBin;
  return std::tuple(derived<One>("from", [](const One& one) { return one.said.low; }),
                    derived<One>("to", [](const One& one) { return one.said.high; }),
                    field("runs", &One::runs), field("expected_to_fit", &One::expected),
                    field("fit", &One::fit));
}

constexpr auto json_fields(const ScoreLine*) {
  using One = ScoreLine;
  return std::tuple(derived<One>("gpu", [](const One& one) { return one.of.gpu; }),
                    derived<One>("framework", [](const One& one) { return one.of.framework; }),
                    derived<One>("strategy", [](const One& one) { return one.of.work; }),
                    field("cases", &One::cases), field("mean", &One::mean),
                    field("median", &One::median), field("p90", &One::p90),
                    field("most", &One::most), field("bias", &One::bias),
                    field("coverage", &One::coverage), field("half_width", &One::half_width),
                    field("interval_score", &One::score));
}

namespace {

std::vector<ScoreLine> lines_of(const ScoreTable& table) {
  std::vector<ScoreLine> lines = table.lines;
  if (table.cpus) lines.push_back(*table.cpus);
  return lines;
}

}  // namespace

constexpr auto json_fields(const RelationLine*) {
  using One = RelationLine;
  return std::tuple(
      derived<One>("relation", [](const One& one) { return to_string(one.relation); }),
      field("sets", &One::sets), field("time", &One::time), field("memory", &One::memory));
}

constexpr auto json_fields(const Outlier*) {
  return std::tuple(field("set", &Outlier::set), field("case", &Outlier::name),
                    field("metric", &Outlier::metric), field("error", &Outlier::error),
                    field("cause", &Outlier::cause));
}

constexpr auto json_fields(const Scoreboard*) {
  using One = Scoreboard;
  return std::tuple(
      derived<One>("time", [](const One& one) { return lines_of(one.time); }),
      derived<One>("memory", [](const One& one) { return lines_of(one.memory); }),
      field("relations", &One::relations),
      group<One>("layouts", field("choices", &One::layouts), field("kendall_tau_b", &One::tau),
                 field("regret", &One::regret), field("pairs", &One::pairs),
                 field("pairs_in_order", &One::right_pairs)),
      field("outliers", &One::outliers));
}

namespace {

struct Whole {
  const Validation* files;
  Summary summary;
};
template <auto kMember>
constexpr auto of_summary(const char* key) {
  return derived<Whole>(key, [](const Whole& one) { return one.summary.*kMember; });
}
constexpr auto json_fields(const Whole*) {
  using One = Whole;
  return std::tuple(
      constant<One>("schema", "rehearse.validation/2"),
      derived<One>("answer", [](const One& one) { return answer(*one.files); }),
      derived<One>("files", [](const One& one) { return *one.files; }),
      of_summary<&Summary::relative>("relative_errors"),
      of_summary<&Summary::staleness>("staleness_differences"),
      of_summary<&Summary::accuracy>("accuracy"), of_summary<&Summary::failures>("failures"),
      of_summary<&Summary::settings>("settings"), of_summary<&Summary::rankings>("rankings"),
      of_summary<&Summary::fits>("fits"), of_summary<&Summary::reliability>("fits_reliability"),
      of_summary<&Summary::coverage>("coverage"),
      derived<One>("scoreboard", [](const One& one) { return scoreboard_of(*one.files); }),
      of_summary<&Summary::failed>("failed"));
}

}  // namespace

std::string to_json(const Validation& validation) {
  return json_text(to_json_value(Whole{&validation, summarize(validation)}), 2) + "\n";
}

OrderedJson validation_schema() {
  return titled_schema("Rehearse: what `rehearse validate --format json` prints",
                       json_schema<Whole>());
}

}  // namespace rehearse::inline validation
