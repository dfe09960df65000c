// Accuracy of real runs beside what replays and forecasts say of it.
#include "validation/learned.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include "base/error.hpp"
#include "fixtures.hpp"
#include "validation/cells.hpp"
#include "validation/compare.hpp"
#include "validation/foretold.hpp"
#include "validation/tables.hpp"

using namespace fixtures;

BOOST_AUTO_TEST_SUITE(learned_test)
namespace {

const auto kTolerance = boost::test_tools::tolerance(1e-9);

/// A curve of two workers whose points have these accuracies, 100 updates of 8 samples apart.
nlohmann::json curve(const std::vector<double>& accuracies, bool diverged = false) {
  nlohmann::json points = nlohmann::json::array();
  for (const double accuracy : accuracies) {
    const std::size_t update = 100 * points.size();
    points.push_back({{"update", update},
                      {"time_s", 1.0 * static_cast<double>(update)},
                      {"samples", 8 * update},
                      {"train_loss", 1.0},
                      {"test_loss", 1.0},
                      {"test_accuracy", accuracy}});
  }
  return {{"schema", "rehearse.curve/1"},
          {"source", "real"},
          {"model", "toy"},
          {"dataset", "mnist"},
          {"train_samples", 100},
          {"test_samples", 1000},
          {"workers", 2},
          {"batch", 8},
          {"learning_rate", 0.1},
          {"momentum", 0.0},
          {"weight_decay", 0.0},
          {"mitigation",
           {{"staleness_aware", false},
            {"momentum_correction", false},
            {"delay_compensation", 0.0},
            {"staleness_bound", nullptr},
            {"backup_workers", 0},
            {"warmup_rounds", 0},
            {"local_steps", 1}}},
          {"seed", 1},
          {"staleness",
           {{"mean", 1.0},
            {"p50", 1},
            {"p99", 2},
            {"max", 2},
            {"histogram", {{"0", 1}, {"1", 2}, {"2", 1}}}}},
          {"updates", 100 * (accuracies.size() - 1)},
          {"diverged", diverged},
          {"points", points}};
}

const std::vector<double> kLearns = {0.1, 0.8, 0.90}, kBetter = {0.1, 0.85, 0.92};
const std::vector<double> kFails = {0.1, 0.1, 0.1};

/// Reads cases beside curves: real.json learned, failed.json did not.
CaseFile read(const std::string& cases, const std::string& head = "") {
  const Scratch folder;
  folder.write("real.json", curve(kLearns).dump());
  folder.write("failed.json", curve(kFails).dump());
  folder.write("own.json", curve(kLearns).dump());
  folder.write("better.json", curve(kBetter).dump());
  nlohmann::json other = curve(kLearns);
  other["seed"] = 2;
  folder.write("other_seed.json", other.dump());
  return read_case_file(
      folder.write("cases.yaml", "source: somewhere\n" + head + "cases:\n" + cases));
}

std::string error_of(const std::string& cases, const std::string& head = "") {
  try {
    read(cases, head);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

const std::string kReplayed =
    "  - {name: a, scenario: s.yaml, recorded: real.json, replay: {own: own.json, simulated: "
    "better.json, fresh: better.json}}\n";

BOOST_AUTO_TEST_CASE(a_curve_gives_staleness_accuracy_and_a_verdict) {
  const CaseFile file =
      read(kReplayed + "  - {name: f, scenario: s.yaml, recorded: failed.json, setting: x}\n");
  std::vector<std::string> metrics;
  for (const Measurement& one : file.cases[0].measured) metrics.push_back(one.metric);
  const std::vector<std::string> expected = {"staleness.mean", "staleness.ks", "accuracy",
                                             "diverges"};
  BOOST_TEST(metrics == expected, boost::test_tools::per_element());
  BOOST_TEST(file.cases[0].measured[2].value == 0.90);
  BOOST_TEST(file.cases[0].note == "without staleness: 92.00 %");
  BOOST_TEST(file.cases[0].learned->setting == "a");
  BOOST_REQUIRE(file.cases[1].measured.size() == 3u);  // what failed has no accuracy
  BOOST_TEST(file.cases[1].measured[2].value == 1);
  BOOST_TEST(file.cases[1].learned->setting == "x");
}

BOOST_AUTO_TEST_CASE(runs_are_cases_by_the_names_of_their_records) {
  const Scratch folder;
  for (const char* name : {"a_1.real", "a_1.own", "a_1.simulated", "a_1.simulated_1", "a_2.real"})
    folder.write(fmt::format("records/{}.json", name), curve(kLearns).dump());
  const CaseFile file = read_case_file(
      folder.write("cases.yaml",
                   "source: somewhere\ncases:\n  - runs: [a_1, a_2]\n    records: records\n"
                   "    group: both\n    setting: a\n    note: noted\n"));
  BOOST_REQUIRE(file.cases.size() == 2U);
  const ValidationCase& one = file.cases[0];
  BOOST_TEST(one.name == "a_1");
  BOOST_TEST(one.scenario == folder / "records/a_1.yaml");
  BOOST_TEST(one.group == "both");
  BOOST_TEST(one.note == "noted");
  BOOST_TEST(one.learned->setting == "a");
  BOOST_TEST(one.learned->replays.size() == 2U);
  BOOST_TEST(one.learned->traces.size() == 2U);
  BOOST_TEST(!one.learned->fresh);
  BOOST_TEST(file.cases[1].name == "a_2");
  BOOST_TEST(file.cases[1].learned->replays.empty());
}

BOOST_AUTO_TEST_CASE(a_replay_of_another_run_is_refused_at_its_place) {
  const std::string error = error_of(
      "  - {name: a, scenario: s.yaml, recorded: real.json, replay: {own: other_seed.json}}\n");
  BOOST_TEST((error.find("cases.yaml:3:68: error: cases.0.replay.own: the replay's seed is 2, that "
                         "of the recorded run 1") != std::string::npos),
             error);
}

BOOST_AUTO_TEST_CASE(a_forecast_needs_a_fit_of_the_file) {
  const std::string one = "  - {name: a, scenario: s.yaml, recorded: real.json, forecast: w3}\n";
  BOOST_TEST((error_of(one).find("this file has no fits") != std::string::npos));
  const std::string missing = error_of(one, "fits: {w3: [nowhere.json]}\n");
  BOOST_TEST((missing.find("fits.w3.0: cannot read") != std::string::npos), missing);
  const std::string empty = error_of(one, "fits: {w3: []}\n");
  BOOST_TEST((empty.find("expected the files of some curves") != std::string::npos), empty);
}

BOOST_AUTO_TEST_CASE(errors_are_in_points_by_who_says_so) {
  nlohmann::json simulated = toy_report();
  simulated["staleness"]["mean"] = 1.5;
  const ComparedCase one = compare(read(kReplayed).cases[0], simulated.dump());
  BOOST_REQUIRE(one.metrics.size() == 6u);
  BOOST_TEST(one.metrics[0].error == 0.5);
  BOOST_TEST(metric_words(one.metrics[2]) == "accuracy, replay of own log");
  BOOST_TEST(error_words(one.metrics[2]) == "+0.00 points");
  BOOST_TEST(metric_words(one.metrics[3]) == "accuracy, replay of simulation");
  BOOST_TEST(one.metrics[3].error == 2, kTolerance);
  BOOST_TEST(predicted_words(one.metrics[3]) == "92.00 %");
  BOOST_TEST(predicted_words(one.metrics[4]) == "trains");
  BOOST_TEST(error_words(one.metrics[4]) == "right");
}

BOOST_AUTO_TEST_CASE(a_replay_that_fails_alone_is_a_wrong_verdict_without_accuracy) {
  const ComparedCase one =
      compare(read("  - {name: a, scenario: s.yaml, recorded: real.json, replay: {own: "
                   "failed.json}}\n")
                  .cases[0],
              toy_report().dump());
  BOOST_REQUIRE(one.metrics.size() == 3u);
  BOOST_TEST(one.metrics[2].metric == "diverges");
  BOOST_TEST(error_words(one.metrics[2]) == "wrong");
}

BOOST_AUTO_TEST_CASE(another_scenario_than_the_curve_s_is_refused) {
  nlohmann::json other = toy_report();
  other["ranks"] = 3;
  BOOST_CHECK_THROW(compare(read(kReplayed).cases[0], other.dump()), InputError);
}

/// A report whose forecast is 91 % in 85 to 95 % in the end, at the first point 70 to 79 %.
nlohmann::json forecast(const char* verdict = "converges") {
  nlohmann::json all = toy_report();
  all["accuracy"] = {{"verdict", verdict},
                     {"accuracy", 0.91},
                     {"accuracy_mean", 0.89},
                     {"failure_probability", 0.24},
                     {"accuracy_interval", {0.85, 0.95}},
                     {"curve",
                      {{{"samples", 400.0}, {"accuracy_interval", {0.55, 0.63}}},
                       {{"samples", 1600.0}, {"accuracy_interval", {0.85, 0.95}}}}}};
  return all;
}

LearnedRun foretold_run() {
  LearnedRun run = *read(kReplayed).cases[0].learned;
  run.replays.clear();
  run.forecast_by = "forecast from w3";
  run.model = std::make_shared<const ConvergenceModel>();
  return run;
}

BOOST_AUTO_TEST_CASE(a_forecast_has_an_interval_along_the_whole_curve) {
  // After 800 samples, halfway in ln(samples), it is 70 to 79 %, which does not hold 80 %.
  const auto told = foretold(foretold_run(), forecast().dump());
  BOOST_REQUIRE(told.size() == 1u);
  BOOST_TEST(told[0].by == "forecast from w3");
  BOOST_TEST(told[0].accuracy == 0.91);
  BOOST_TEST(*told[0].mean == 0.89);
  BOOST_TEST(told[0].interval->high == 0.95);
  BOOST_TEST(told[0].odds->verdict == "converges");
  BOOST_TEST(told[0].odds->failure_probability == 0.24);
  BOOST_TEST(told[0].points == 2u);
  BOOST_TEST(told[0].points_inside == 1u);
  BOOST_TEST(!told[0].failed);
  BOOST_TEST(!foretold(foretold_run(), forecast("may diverge").dump())[0].failed);
  BOOST_TEST(foretold(foretold_run(), forecast("diverges").dump())[0].failed);
  BOOST_CHECK_THROW(foretold(foretold_run(), toy_report().dump()), InputError);
}

const std::string kThreeTraces =
    "  - {name: a_1, scenario: s.yaml, recorded: real.json, setting: a, replay: {simulated: "
    "[better.json, failed.json, own.json]}}\n"
    "  - {name: a_2, scenario: s.yaml, recorded: failed.json, setting: a, replay: {simulated: "
    "[better.json, better.json]}}\n";

BOOST_AUTO_TEST_CASE(the_first_of_several_traces_is_the_one_of_the_pair) {
  const CaseFile file = read(kThreeTraces);
  const LearnedRun& run = *file.cases[0].learned;
  BOOST_REQUIRE(run.traces.size() == 3u);
  BOOST_REQUIRE(run.replays.size() == 1u);
  BOOST_TEST(run.replays[0].curve.points.back().test_accuracy == 0.92);
  BOOST_TEST(run.traces[2].points.back().test_accuracy == 0.90);
  BOOST_TEST(read(kReplayed).cases[0].learned->traces.size() == 1u);
}

BOOST_AUTO_TEST_CASE(each_of_several_traces_is_checked_at_its_place) {
  const std::string error = error_of(
      "  - {name: a, scenario: s.yaml, recorded: real.json, replay: {simulated: [own.json, "
      "other_seed.json]}}\n");
  BOOST_TEST((error.find("cases.yaml:3:85: error: cases.0.replay.simulated.1: the replay's seed "
                         "is 2, that of the recorded run 1") != std::string::npos),
             error);
  const std::string none =
      error_of("  - {name: a, scenario: s.yaml, recorded: real.json, replay: {simulated: []}}\n");
  BOOST_TEST((none.find("error: cases.0.replay.simulated: expected the file of a replay, or a "
                        "list of such files") != std::string::npos),
             none);
}

BOOST_AUTO_TEST_CASE(a_setting_s_real_runs_stand_beside_all_their_replays) {
  // Real 0.90 and, failed, 0.10. Replays 0.92, 0.10 (failed), 0.90 of the first run: 1.92 in all;
  // 0.92 twice of the second: 1.84. Their mean is 0.752, their clusters are -0.336 and 0.336 off
  // it: a standard error of sqrt(2 x 2 x 0.336^2) / 5 = 0.1344.
  ComparedFile compared{.file = read(kThreeTraces), .cases = {{}, {}}};
  const std::vector<SettingSummary> settings = summarize_settings({compared});
  BOOST_REQUIRE(settings.size() == 1u);
  const SettingSummary& one = settings[0];
  BOOST_TEST(one.setting == "a");
  BOOST_TEST(one.real.failed.some == 1u);
  BOOST_TEST(one.real.all.mean == 0.5, kTolerance);
  BOOST_TEST(*one.real.all.error == 0.4, kTolerance);
  BOOST_TEST(one.real.trained.mean == 0.9, kTolerance);
  BOOST_TEST(!one.real.trained.error);
  BOOST_TEST(one.replays.failed.some == 1u);
  BOOST_TEST(one.replays.failed.all == 5u);
  BOOST_TEST(one.replays.all.mean == 0.752, kTolerance);
  BOOST_TEST(*one.replays.all.error == 0.1344, kTolerance);
  BOOST_TEST(one.replays.trained.runs == 4u);
  BOOST_TEST(one.replays.trained.mean == 0.915, kTolerance);
  // 1 of 2 and 1 of 5: of 21 pairs of failures 10 are one on each side, and 10 both of five.
  BOOST_TEST(one.same_failures == 1, kTolerance);
  // The first lies between 0.10 and 0.92, where 2 of 4 would; the second below 0.92, as 2 of 3.
  BOOST_TEST(one.within.inside == 1u);
  BOOST_TEST(one.within.intervals == 2u);
  BOOST_TEST(one.expected_within == 2 / 4.0 + 1 / 3.0, kTolerance);
}

BOOST_AUTO_TEST_CASE(whether_a_setting_s_runs_fail_goes_by_what_its_fit_trains_to) {
  // Nothing learned, an error of 0.9: above (0.9 + 0) / 2, and not above (0.9 + 0.95) / 2.
  ComparedFile compared{.file = read(kThreeTraces), .cases = {{}, {}}};
  ConvergenceModel model;
  model.trained_error = 0.95;
  for (ValidationCase& one : compared.file.cases)
    one.learned->model = std::make_shared<const ConvergenceModel>(model);
  const SettingSummary one = summarize_settings({compared})[0];
  BOOST_TEST(one.real.failed.some == 0u);
  BOOST_TEST(one.replays.failed.some == 0u);
}

BOOST_AUTO_TEST_CASE(a_setting_says_its_ends_in_percent) {
  ComparedFile compared{.file = read(kThreeTraces), .cases = {{}, {}}};
  Summary summary;
  summary.settings = summarize_settings({compared});
  BOOST_TEST(tables_of(summary).at(0).markdown().ends_with(
      "| 1 of 2 | 1 of 5 | 1 | 50.00 ± 40.00 | 75.20 ± 13.44 | +25.20 ± 42.20 | 90.00 | "
      "91.50 ± 0.50 | +1.50 | 1 of 2 (0.8) |\n"));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
