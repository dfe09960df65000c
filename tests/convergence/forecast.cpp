#include <boost/test/unit_test.hpp>
#include <cmath>

#include "convergence/world.hpp"

using namespace rehearse;

std::vector<std::string> texts_of(const std::vector<Doubt>& doubts) {
  std::vector<std::string> texts;
  for (const Doubt& doubt : doubts) texts.push_back(doubt.text);
  return texts;
}

BOOST_AUTO_TEST_CASE(staleness_that_the_fit_never_saw_is_forecast_within_2_points) {
  const World world;
  const ConvergenceModel model = fit_convergence(runs_of(world, {0, 3, 12}, 100));
  for (const double mean : {1.0, 6.0, 8.5}) {
    for (const double rate : kRates) {
      const TrainingSetting setting = setting_of(mean, rate);
      if (world.index(setting) > 0.45) continue;
      const double expected = 1 - std::exp(world.log_error(setting, 2000));
      const Forecast forecast(model, setting);
      BOOST_TEST_CONTEXT("staleness " << mean << ", rate " << rate) {
        BOOST_TEST(std::abs(forecast.accuracy_after(2000).value - expected) < 0.02);
        BOOST_TEST((forecast.verdict() == Verdict::converges));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(divergence_is_called_right_away_from_the_edge) {
  const World world;
  const ConvergenceModel model = fit_convergence(runs_of(world, {0, 3, 12}, 7));
  for (const double mean : {1.0, 6.0, 8.5, 20.0}) {
    for (const double rate : kRates) {
      const TrainingSetting setting = setting_of(mean, rate);
      const double share = world.index(setting) / world.edge;
      const Verdict verdict = Forecast(model, setting).verdict();
      if (share < 0.6) BOOST_TEST((verdict == Verdict::converges));
      if (share > 1.5) BOOST_TEST((verdict == Verdict::diverges));
    }
  }
}

BOOST_AUTO_TEST_CASE(updates_to_an_accuracy_are_those_after_which_it_is_the_accuracy) {
  const World world;
  const ConvergenceModel model = fit_convergence(runs_of(world, {0, 3, 12}, 3));
  const Forecast forecast(model, setting_of(3, 0.05));
  const Estimate<std::optional<double>> needed = forecast.updates_to(0.9);
  BOOST_REQUIRE(needed.value.has_value());
  BOOST_TEST(std::abs(forecast.accuracy_after(*needed.value).value - 0.9) < 1e-6);
  BOOST_TEST(*needed.low < *needed.value);
  BOOST_TEST(*needed.value < *needed.high);
  BOOST_TEST(!forecast.updates_to(0.9999).value.has_value());
}

BOOST_AUTO_TEST_CASE(staleness_costs_accuracy_and_more_of_it_costs_more) {
  const World world;
  const ConvergenceModel model = fit_convergence(runs_of(world, {0, 3, 12}, 3));
  double before = 1;
  for (const double mean : {0.0, 2.0, 4.0, 6.0}) {
    const double accuracy = Forecast(model, setting_of(mean, 0.1)).accuracy_after(1000).value;
    BOOST_TEST(accuracy < before);
    before = accuracy;
  }
}

BOOST_AUTO_TEST_CASE(what_the_fit_never_saw_is_said) {
  const World world;
  const ConvergenceModel model = fit_convergence(runs_of(world, {0, 3}, 3));
  TrainingSetting setting = setting_of(5, 0.008);
  setting.momentum = 0.9;
  const std::vector<std::string> expected = {
      "learning rate 0.008: fitted on 0.02 to 0.4", "momentum 0.9: fitted on 0",
      "mean staleness 5: fitted on 0 to 3", "updates 1e+05: fitted on 0 to 2000"};
  BOOST_TEST(texts_of(Forecast(model, setting).outside_calibration(1e5)) == expected,
             boost::test_tools::per_element());
  BOOST_TEST(Forecast(model, setting_of(2, 0.1)).outside_calibration(500).empty());
}

// Weights 1, 1, 1/2, 1/3 on a quarter of the updates each: rate x 17/24.
BOOST_AUTO_TEST_CASE(a_rate_over_the_staleness_weighs_stale_gradients_less) {
  const TrainingSetting setting{Staleness{{0.25, 0.25, 0.25, 0.25}}, 0.24, 0, 32};
  Mitigation by;
  by.staleness_aware = true;
  const TrainingSetting now = mitigated(setting, by, 4);
  BOOST_TEST(std::abs(now.learning_rate - 0.17) < 1e-12);
  BOOST_TEST(std::abs(now.staleness.share[3] - (1.0 / 3) / (17.0 / 6)) < 1e-12);
}

// --- delay compensation

BOOST_AUTO_TEST_SUITE(forecast_test)
namespace {

TrainingSetting compensated(TrainingSetting setting, double lambda) {
  Mitigation by;
  by.delay_compensation = lambda;
  return mitigated(setting, by, 4);
}

}  // namespace

// lambda = 1 makes up for 16 / 32 of what was missed, 1.6 for 0.8 of it.
BOOST_AUTO_TEST_CASE(delay_compensation_that_runs_had_is_forecast_for_other_staleness) {
  const World world;
  std::vector<Observation> runs = runs_of(world, {0, 3, 12}, 100);
  std::uint64_t seed = 500;
  for (const double rate : kRates)
    for (const double lambda : {1.0, 1.6})
      runs.push_back(world.run(compensated(setting_of(12, rate), lambda), seed++));
  const ConvergenceModel model = fit_convergence(runs);
  BOOST_REQUIRE(model.compensation.has_value());
  BOOST_TEST(model.compensation->low <= kStrength);
  BOOST_TEST(model.compensation->high >= kStrength);
  for (const double mean : {6.0, 8.5}) {
    for (const double rate : kRates) {
      const TrainingSetting setting = compensated(setting_of(mean, rate), 1);
      if (world.index(setting) > 0.45) continue;
      const double expected = 1 - std::exp(world.log_error(setting, 2000));
      const Forecast forecast(model, setting);
      BOOST_TEST_CONTEXT("staleness " << mean << ", rate " << rate) {
        BOOST_TEST(std::abs(forecast.accuracy_after(2000).value - expected) < 0.02);
        BOOST_TEST(forecast.outside_calibration(2000).empty());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(delay_compensation_that_no_run_had_may_do_anything_from_nothing_to_all) {
  const World world;
  const ConvergenceModel model = fit_convergence(runs_of(world, {0, 3, 12}, 3));
  const TrainingSetting plain = setting_of(6, 0.1);
  const TrainingSetting asked = compensated(plain, 0.04);
  const Estimate<double> part = compensation_of(model, asked);
  BOOST_TEST(part.low == 0);
  BOOST_TEST(std::abs(part.value - 0.04 / 32) < 1e-15);
  BOOST_TEST(part.high == 1);
  const Estimate<double> range = Forecast(model, asked).accuracy_after(1000);
  BOOST_TEST(range.low < Forecast(model, plain).accuracy_after(1000).value);
  BOOST_TEST(range.high > Forecast(model, fresh(plain)).accuracy_after(1000).value);
  const std::vector<std::string> expected = {"delay compensation 0.04: fitted on 0"};
  BOOST_TEST(texts_of(Forecast(model, asked).outside_calibration(1000)) == expected,
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(delay_compensation_does_nothing_with_lambda_0_or_to_fresh_gradients) {
  const World world;
  const ConvergenceModel model = fit_convergence(runs_of(world, {0, 3, 12}, 3));
  for (const auto& [setting, lambda] :
       {std::pair(setting_of(6, 0.1), 0.0), std::pair(setting_of(0, 0.1), 0.04)}) {
    const Estimate<double> plain = Forecast(model, setting).accuracy_after(1000);
    const Estimate<double> with =
        Forecast(model, compensated(setting, lambda)).accuracy_after(1000);
    BOOST_TEST(with.value == plain.value);
    BOOST_TEST(with.low == plain.low);
    BOOST_TEST(with.high == plain.high);
    BOOST_TEST(Forecast(model, compensated(setting, lambda)).outside_calibration(1000).empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
