// Accuracy and verdicts of many runs, summed up.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "fixtures.hpp"
#include "validation/cells.hpp"
#include "validation/compare.hpp"
#include "validation/views.hpp"

using namespace fixtures;

BOOST_AUTO_TEST_SUITE(accuracy_summary_test)
namespace {

const auto kTolerance = boost::test_tools::tolerance(1e-9);

ComparedMetric accuracy(double points, const std::string& setting) {
  return {.metric = "accuracy",
          .group = "g",
          .measured = 0.9,
          .predicted = 0.9 + points / 100,
          .error = points,
          .interval = Ends<double>{0.85, 0.905},
          .by = "forecast",
          .setting = setting,
          .points = 10,
          .points_inside = 9};
}

ComparedMetric verdict(bool right) {
  return {.metric = "diverges",
          .group = "g",
          .measured = 1,
          .predicted = right ? 1.0 : 0.0,
          .error = right ? 0.0 : 1.0,
          .interval = std::nullopt,
          .by = "forecast"};
}

/// Of a run that failed or not, by one who says that it trains.
ComparedMetric verdict_of(bool failed) {
  ComparedMetric metric = verdict(!failed);
  metric.measured = failed ? 1 : 0;
  metric.predicted = 0;
  return metric;
}

/// Two settings, whose runs are 1, 2 and -1, -0.5 points off; two verdicts, of which one is wrong.
Validation five_runs() {
  ComparedFile file;
  add(file, "a_1", "ps asp", {accuracy(1, "a")});
  add(file, "a_2", "ps asp", {accuracy(2, "a")});
  add(file, "b_1", "ps asp", {accuracy(-1, "b"), verdict(true)});
  add(file, "b_2", "ps asp", {accuracy(-0.5, "b")});
  add(file, "c", "ps asp", {verdict(false)});
  add(file, "input", "ps asp", {accuracy(50, "d")}, false);
  return {file};
}

BOOST_AUTO_TEST_CASE(accuracy_is_summed_up_by_who_says_so_and_by_setting) {
  const Summary summary = summarize(five_runs());
  BOOST_TEST(summary.relative.empty());
  BOOST_TEST(summary.staleness.empty());
  BOOST_REQUIRE(summary.accuracy.size() == 1u);
  const AccuracySummary& one = summary.accuracy[0];
  BOOST_TEST(one.runs == 4u);
  BOOST_TEST(one.mean == 1.125, kTolerance);
  BOOST_TEST(one.max == 2, kTolerance);
  BOOST_TEST(one.setting == "a");
  BOOST_TEST(one.worst_setting == 1.5, kTolerance);
  BOOST_TEST(one.coverage.intervals == 4u);
  BOOST_TEST(one.points.inside == 36u);
  BOOST_TEST(one.right == 1u);
  BOOST_TEST(one.verdicts == 2u);
}

// Medians that are right beside runs whose mean lies 3 points lower, as the forecast says in one
// setting, and does not in the other.
BOOST_AUTO_TEST_CASE(the_mean_of_a_settings_runs_is_set_beside_the_mean_that_is_foretold) {
  ComparedFile file;
  for (const char* setting : {"a", "b"}) {
    for (const double below : {6.0, 0.0}) {
      ComparedMetric metric = accuracy(below, setting);
      metric.mean = metric.predicted - (setting[0] == 'a' ? 0.03 : 0.01);
      add(file, "one", "ps asp", {metric});
    }
  }
  const Summary summary = summarize({file});
  BOOST_REQUIRE(summary.accuracy.size() == 1u);
  BOOST_TEST(summary.accuracy[0].setting == "b");
  BOOST_TEST(summary.accuracy[0].worst_setting == 2, kTolerance);
  BOOST_TEST(summary.accuracy[0].mean == 3, kTolerance);
}

BOOST_AUTO_TEST_CASE(a_bound_holds_the_mean_of_each_setting_and_every_verdict) {
  ErrorBounds bounds;
  BOOST_TEST(beyond(five_runs(), bounds).empty());
  bounds.accuracy = 1.4;
  const auto lines = beyond(five_runs(), bounds);
  BOOST_REQUIRE(lines.size() == 2u);
  BOOST_TEST(lines[0] ==
             "group \"g\", forecast: the runs of a end +1.50 points off on average, more than 1.4");
  BOOST_TEST(lines[1] == "case \"c\", diverges: the forecast is wrong");
  bounds.accuracy = 1.6;
  BOOST_TEST(beyond(five_runs(), bounds).size() == 1u);
}

ComparedMetric said(const char* verdict, double failure_probability, bool failed) {
  ComparedMetric metric = verdict_of(failed);
  metric.odds = SaidOdds{.verdict = verdict, .failure_probability = failure_probability};
  return metric;
}

/// Of three that are said to train one fails, of two that may diverge none; one diverges as said.
Validation six_odds() {
  ComparedFile file;
  const auto one = [&](const ComparedMetric& metric, bool held_out = true) {
    add(file, "one", "ps asp", {metric}, held_out);
  };
  one(said("diverges", 0.9, true));
  one(said("may diverge", 0.2, false));
  for (const bool failed : {false, true, false}) one(said("converges", 0.01, failed));
  one(said("may diverge", 0.5, false));
  one(said("may diverge", 0.5, true), false);
  return {file};
}

BOOST_AUTO_TEST_CASE(verdicts_are_summed_up_by_how_many_runs_their_odds_let_fail) {
  const std::vector<FailureSummary> lines = summarize_failures(six_odds());
  BOOST_REQUIRE(lines.size() == 3u);
  BOOST_TEST(lines[0].verdict == "converges");
  BOOST_TEST(lines[0].runs == 3u);
  BOOST_TEST(lines[0].expected == 0.03, kTolerance);
  BOOST_TEST(lines[0].deviation == std::sqrt(3 * 0.01 * 0.99), kTolerance);
  BOOST_TEST(lines[0].failed == 1u);
  BOOST_TEST(lines[1].verdict == "may diverge");
  BOOST_TEST(lines[1].runs == 2u);
  BOOST_TEST(lines[1].expected == 0.7, kTolerance);
  BOOST_TEST(lines[1].deviation == std::sqrt(0.2 * 0.8 + 0.5 * 0.5), kTolerance);
  BOOST_TEST(lines[1].failed == 0u);
  BOOST_TEST(lines[2].runs == 1u);
  BOOST_TEST(lines[2].failed == 1u);
  // Replays give no odds, and have no line.
  BOOST_TEST(summarize_failures(five_runs()).empty());
}

BOOST_AUTO_TEST_CASE(every_form_has_the_odds_of_verdicts) {
  const ComparedMetric odds = said("may diverge", 0.2, false);
  BOOST_TEST(predicted_words(odds) == "may diverge");
  BOOST_TEST(interval_words(odds) == "20.0 % fail");
  const std::string table = to_table(six_odds(), false);
  BOOST_TEST(
      (table.find("verdict of forecasts  runs  expected to fail  fail\n"
                  "converges                3         0.0 ± 0.2     1\n"
                  "may diverge              2         0.7 ± 0.6     0\n"
                  "diverges                 1         0.9 ± 0.3     1\n") != std::string::npos),
      table);
  const std::string markdown = to_markdown(six_odds());
  BOOST_TEST((markdown.find("| verdict of forecasts | runs | expected to fail | fail |\n"
                            "|---|---:|---:|---:|\n| converges | 3 | 0.0 ± 0.2 | 1 |\n") !=
              std::string::npos),
             markdown);
  const std::string csv = to_csv(six_odds());
  BOOST_TEST((csv.find(",forecast,,true,0.2\n") != std::string::npos), csv);
  const nlohmann::json json = nlohmann::json::parse(to_json(six_odds()));
  BOOST_TEST(json.at("failures")[1].at("expected_to_fail") == 0.7, kTolerance);
  const auto& metric = json.at("files")[0].at("cases")[1].at("metrics")[0];
  BOOST_TEST(metric.at("verdict") == "may diverge");
  BOOST_TEST(metric.at("failure_probability") == 0.2);
}

BOOST_AUTO_TEST_CASE(every_form_has_the_points_and_the_verdicts) {
  const std::string csv = to_csv(five_runs());
  BOOST_TEST((csv.find(",g,c,ps asp,diverges,false,true,,,,,,,true,,,forecast,,false,\n") !=
              std::string::npos),
             csv);
  BOOST_TEST((csv.find(",forecast,-0.5,,\n") != std::string::npos), csv);
  const nlohmann::json json = nlohmann::json::parse(to_json(five_runs()));
  BOOST_TEST(json.at("files")[0].at("cases")[0].at("metrics")[0].at("points") == 1.0);
  BOOST_TEST(json.at("files")[0].at("cases")[4].at("metrics")[0].at("right") == false);
  BOOST_TEST(json.at("accuracy")[0].at("worst_setting").at("setting") == "a");
  const std::string row = "   4         1.12  2.00          +1.50   4 of 4   36 of 40  1 of 2";
  const std::string table = to_table(five_runs(), false);
  BOOST_TEST((table.find(row) != std::string::npos), table);
  const std::string markdown = to_markdown(five_runs());
  BOOST_TEST(
      (markdown.find("| g | forecast | 4 | 1.12 | 2.00 | +1.50 | 4 of 4 | 36 of 40 | 1 of 2 |") !=
       std::string::npos),
      markdown);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
