#include "view/curves_views.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "base/percentile.hpp"
#include "config/json/json_record.hpp"
#include "convergence/observation.hpp"
#include "view/table.hpp"

namespace rehearse::inline view {
namespace {

constexpr std::size_t kWidest = 110;

void check_same_training(const NamedCurve& one, const NamedCurve& first) {
  const auto differs = training_difference(one.curve, first.curve);
  if (!differs) return;
  throw InputError(
      fmt::format("{}: error: its {} is {}, that of {} {}\n"
                  "remedy: name runs that differ by seed or by the order of updates alone",
                  one.file, differs->what, differs->one, first.file, differs->other));
}

/// "replays", "real runs", or "runs" of both.
std::string kind_of(const CurvesReport& report) {
  const auto all = [&](const char* source) {
    return std::ranges::all_of(report.runs,
                               [&](const NamedCurve& one) { return one.curve.source == source; });
  };
  if (all("replay")) return "replays";
  return all("real") ? "real runs" : "runs";
}

std::string title_of(const CurvesReport& report) {
  const Curve& curve = report.runs.front().curve;
  return fmt::format("{} on {}: {} {}, {} workers", curve.model, curve.dataset, report.runs.size(),
                     kind_of(report), curve.workers);
}

std::string percent_hundredths(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::string verdict_words(const CurvesReport& report) {
  return verdict_of(report.failed, kind_of(report));
}

void add_summary(const CurvesReport& report, Page& page) {
  page.field("median", page.ink(Ink::strong, percent_hundredths(report.median)));
  std::string mean = percent_hundredths(report.mean.mean);
  if (report.mean.error)
    mean += fmt::format(", standard error {:.2f} points", 100 * *report.mean.error);
  page.field("mean", mean);
  if (report.further) {
    page.wrapped_field("interval", Ink::plain,
                       fmt::format("{:.0f} % of further ones are expected in {:.2f} to {}",
                                   100 * report.further->share, 100 * report.further->ends.low,
                                   percent_hundredths(report.further->ends.high)));
  }
  page.field("verdict",
             page.ink(report.failed.some == 0 ? Ink::good : Ink::bad, verdict_words(report)));
}

}  // namespace

CurvesReport report_of(std::vector<NamedCurve> runs) {
  check(!runs.empty(), "a report of curves has one");
  CurvesReport report;
  std::vector<double> ends;
  std::map<std::uint64_t, std::vector<double>> by_seed;
  std::vector<Curve> curves;
  curves.reserve(runs.size());
  for (const NamedCurve& one : runs) curves.push_back(one.curve);
  const double trained_error = least_end_error(curves);
  for (NamedCurve& one : runs) {
    check_same_training(one, runs.front());
    one.end = end_of(one.curve, trained_error);
    ends.push_back(one.end.accuracy);
    by_seed[one.curve.seed].push_back(one.end.accuracy);
    ++report.failed.all;
    report.failed.some += one.end.failed ? 1 : 0;
  }
  std::vector<std::vector<double>> clusters;
  if (by_seed.size() == 1) {  // what is asked is that seed's mean
    for (const double end : ends) clusters.push_back({end});
  } else {
    for (auto& [seed, of_seed] : by_seed) clusters.push_back(std::move(of_seed));
  }
  report.mean = mean_of_clusters(clusters);
  report.median = percentile(ends, 0.5);
  report.further = further_runs(ends);
  report.runs = std::move(runs);
  return report;
}

std::string to_table(const CurvesReport& report, int width, bool color) {
  Page page(std::clamp<std::size_t>(static_cast<std::size_t>(width), 60, kWidest), color);
  page.paragraph(Ink::strong, title_of(report));
  for (const NamedCurve& one : report.runs) {
    page.line(fmt::format("{}  seed {:<6}  {}", right(percent_hundredths(one.end.accuracy), 9),
                          one.curve.seed, one.file) +
              (one.end.failed ? page.ink(Ink::bad, "  fails") : ""));
  }
  page.blank();
  add_summary(report, page);
  return page.text();
}

constexpr auto json_fields(const NamedCurve*) {
  using One = NamedCurve;
  return std::tuple(
      field("file", &One::file),
      derived<One>("source", [](const One& one) { return one.curve.source; }),
      derived<One>("seed", [](const One& one) { return one.curve.seed; }),
      derived<One>("staleness", [](const One& one) { return one.curve.staleness.mean; }),
      derived<One>("accuracy", [](const One& one) { return one.end.accuracy; }),
      derived<One>("failed", [](const One& one) { return one.end.failed; }));
}

namespace {

/// A figure that all of the runs have.
template <auto kMember>
constexpr auto of_all(const char* key) {
  return derived<CurvesReport>(
      key, [](const CurvesReport& one) { return one.runs.front().curve.*kMember; });
}

struct FurtherPart {
  double share = 0;
  Ends<double> interval;
};
constexpr auto json_fields(const FurtherPart*) {
  return std::tuple(field("share", &FurtherPart::share), field("interval", &FurtherPart::interval));
}
std::optional<FurtherPart> further_of(const CurvesReport& report) {
  if (!report.further) return std::nullopt;
  return FurtherPart{report.further->share, report.further->ends};
}

}  // namespace

constexpr auto json_fields(const CurvesReport*) {
  using One = CurvesReport;
  return std::tuple(
      constant<One>("schema", "rehearse.curves/1"), derived<One>("description", title_of),
      of_all<&Curve::model>("model"), of_all<&Curve::dataset>("dataset"),
      of_all<&Curve::workers>("workers"), of_all<&Curve::batch>("batch"),
      of_all<&Curve::learning_rate>("learning_rate"), of_all<&Curve::momentum>("momentum"),
      derived<One>("verdict", verdict_words),
      group<One>("failed", derived<One>("some", [](const One& one) { return one.failed.some; }),
                 derived<One>("all", [](const One& one) { return one.failed.all; })),
      field("median", &One::median),
      derived<One>("mean", [](const One& one) { return one.mean.mean; }),
      derived<One>("standard_error", [](const One& one) { return one.mean.error; }),
      derived<One>("further", further_of), field("runs", &One::runs));
}

OrderedJson json_view(const CurvesReport& report) { return to_json_value(report); }

OrderedJson curves_schema() {
  return titled_schema("Curves of runs (rehearse.curves/1)", json_schema<CurvesReport>());
}

std::string to_csv(const CurvesReport& report) {
  Table table({{"file"}, {"source"}, {"seed"}, {"staleness"}, {"accuracy"}, {"failed"}});
  for (const NamedCurve& one : report.runs) {
    table.row({{one.file, one.curve.source, fmt::to_string(one.curve.seed),
                fmt::to_string(one.curve.staleness.mean), fmt::to_string(one.end.accuracy),
                fmt::to_string(one.end.failed)}});
  }
  return table.csv();
}

}  // namespace rehearse::inline view
