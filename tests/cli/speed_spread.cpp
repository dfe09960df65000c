// How GPUs of one kind differ, for good.
#include "scenario/speed_spread.hpp"
#include "base/data_folder.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>

#include "scenario/scenario.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(speed_spread_test)
namespace {

std::vector<double> sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

double slowest(double spread, std::size_t gpus) {
  return sorted(spread_slowdowns(spread, gpus, 1)).back();
}

BOOST_AUTO_TEST_CASE(one_gpu_is_the_typical_one) { BOOST_TEST(slowest(0.1, 1) == 1); }

BOOST_AUTO_TEST_CASE(without_a_spread_all_are_alike) { BOOST_TEST(slowest(0, 64) == 1); }

// Expected largest of n standard normal draws: 0.564 of 2, 1.424 of 8, 2.508 of 100
// (Harter, "Expected values of normal order statistics", Biometrika 48, 1961).
BOOST_AUTO_TEST_CASE(the_slowest_is_the_expected_slowest) {
  for (const auto& [gpus, deviations] : {std::pair{2, 0.564}, {8, 1.424}, {100, 2.508}}) {
    const double spread = 0.02;
    const double found = std::log(slowest(spread, static_cast<std::size_t>(gpus))) / spread;
    BOOST_TEST(std::abs(found - deviations) < 0.03, gpus << " GPUs: " << found);
  }
}

BOOST_AUTO_TEST_CASE(the_spread_of_many_is_the_one_asked_for) {
  double squares = 0;
  const std::vector<double> all = spread_slowdowns(0.05, 10'000, 1);
  for (const double slowdown : all) squares += std::log(slowdown) * std::log(slowdown);
  BOOST_TEST(std::abs(std::sqrt(squares / 10'000) / 0.05 - 1) < 0.01);
}

BOOST_AUTO_TEST_CASE(the_seed_draws_the_order_alone) {
  const auto first = spread_slowdowns(0.05, 16, 1), second = spread_slowdowns(0.05, 16, 2);
  BOOST_TEST(first == spread_slowdowns(0.05, 16, 1));
  BOOST_TEST(first != second);
  BOOST_TEST(sorted(first) == sorted(second));
}

// A parameter server's CPU is no GPU.
BOOST_AUTO_TEST_CASE(a_schedule_slows_its_gpus_down_and_no_server) {
  const std::string text = R"(
model: {use: small_cnn, batch_per_gpu: 8, costs: analytic}
cluster: {nodes: 3, node: {gpus: 1, gpu: generic, nic: 10Gbps}}
strategy: {ps: {servers: 1, server_host: worker}}
run: {speed_spread: 0.1, stragglers: [{rank: 0, slowdown: 2}]}
)";
  const Schedule schedule = make_schedule(read_scenario(*Document::parse(text, "ps.yaml")));
  const std::vector<double> slowdowns = spread_slowdowns(0.1, 3, 1);
  BOOST_REQUIRE(schedule.ranks.size() == 4u);
  BOOST_TEST(std::abs(schedule.ranks[0].slowdown - 2 * slowdowns[0]) < 1e-12);
  BOOST_TEST(schedule.ranks[1].slowdown == slowdowns[1]);
  BOOST_TEST(schedule.ranks[2].slowdown == slowdowns[2]);
  BOOST_TEST(schedule.ranks[3].slowdown == 1);
}

// ---- Where nothing is said ----

Scenario scenario_of(const std::string& cluster, const std::string& more = "") {
  const std::string text = "model: {use: small_cnn, batch_per_gpu: 8}\ncluster: " + cluster +
                           "\nstrategy: {ddp: {}}\n" + more;
  return read_scenario(*Document::parse(text, "scenario.yaml"));
}

bool assumes(const Scenario& scenario, const std::string& line) {
  return std::ranges::count(scenario.assumptions, line) == 1;
}

void check_no_fleet(const Scenario& scenario) {
  BOOST_TEST(scenario.run.speed_spread == 0);
  BOOST_TEST((scenario.run.jitter.distribution == Jitter::Distribution::none));
  BOOST_TEST(!scenario.run.usual_spread);
  BOOST_TEST(!scenario.run.usual_jitter);
  BOOST_TEST(assumes(scenario, "run.jitter = none"));
}

BOOST_AUTO_TEST_CASE(gpus_of_a_fleet_differ_where_nothing_is_said) {
  const Scenario scenario = scenario_of("{use: dgx_a100}");
  BOOST_TEST(scenario.run.speed_spread == 0.015);
  BOOST_TEST((scenario.run.jitter.distribution == Jitter::Distribution::lognormal));
  BOOST_TEST(scenario.run.jitter.cv == 0.002);
  BOOST_TEST(scenario.run.usual_spread);
  BOOST_TEST(scenario.run.usual_jitter);
  BOOST_TEST(assumes(scenario, "run.speed_spread = 0.015"));
  BOOST_TEST(assumes(scenario, "run.jitter = {lognormal: {cv: 0.002}}"));
}

BOOST_AUTO_TEST_CASE(what_is_said_holds) {
  const Scenario scenario =
      scenario_of("{use: dgx_a100}", "run: {speed_spread: 0, jitter: none}\n");
  BOOST_TEST(scenario.run.speed_spread == 0);
  BOOST_TEST((scenario.run.jitter.distribution == Jitter::Distribution::none));
  BOOST_TEST(!scenario.run.usual_spread);
  BOOST_TEST(!scenario.run.usual_jitter);
  const Scenario half = scenario_of("{use: dgx_a100}", "run: {speed_spread: 0.03}\n");
  BOOST_TEST(half.run.speed_spread == 0.03);
  BOOST_TEST(!half.run.usual_spread);
  BOOST_TEST(half.run.usual_jitter);
}

BOOST_AUTO_TEST_CASE(one_gpu_is_no_fleet) {
  check_no_fleet(scenario_of("{use: dgx_a100, gpus_per_node: 1, nodes: 1}"));
}

BOOST_AUTO_TEST_CASE(gpus_of_no_real_kind_are_no_fleet) {
  check_no_fleet(scenario_of("{nodes: 4, node: {gpus: 2, gpu: generic, nic: 10Gbps}}"));
}

BOOST_AUTO_TEST_CASE(cores_of_one_machine_are_no_fleet) {
  check_no_fleet(
      scenario_of("{nodes: 4, node: {gpus: 1, gpu: A100-SXM-80, nic: 1Gbps}, shared_cores: 2}"));
}

BOOST_AUTO_TEST_CASE(cpus_that_were_measured_are_no_fleet) {
  check_no_fleet(
      read_scenario(platforms_folder().parent_path() / "scenarios/cpu_small_cnn_ddp.yaml", {}));
}

// The usual slowest of eight: exp(0.015 x 1.424).
BOOST_AUTO_TEST_CASE(the_slowest_of_a_server_is_two_percent_behind) {
  const Schedule schedule = make_schedule(scenario_of("{use: dgx_a100, nodes: 1}"));
  double slowest = 0;
  for (const RankSpec& rank : schedule.ranks) slowest = std::max(slowest, rank.slowdown);
  BOOST_TEST(std::abs(slowest - 1.0216) < 0.0005);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
