#include "report/economy.hpp"

#include <boost/test/unit_test.hpp>

#include "report/run_facts.hpp"
#include "toy.hpp"

using namespace toy;

BOOST_AUTO_TEST_SUITE(economy_test)
namespace {

const auto kExact = boost::test_tools::tolerance(1e-9);

/// Two nodes of one GPU of 400 W at 10 USD (4 on the spot market) an hour; 36 x 1'600'000
/// samples in steps of 16, 3'600'000 steps of 6.75 ms on average: 24'300 s, 6.75 h of training.
Scenario priced() {
  Scenario toy_scenario = scenario_with(TorchDdp{});
  toy_scenario.train = {.samples_per_epoch = 1'600'000, .epochs = 36, .steps = {}};
  toy_scenario.cluster.groups[0].node.prices.spot = 4;
  toy_scenario.cluster.groups[0].node.gpu.tdp = Watts(400);
  return toy_scenario;
}

FailureOptions failures() {
  return {.mtbf_per_node = Seconds(100 * 3600),
          .mean_time_to_preemption = Seconds(25 * 3600),
          .detect = Seconds(60),
          .restart = Seconds(240),
          .checkpoint = {.interval = Seconds(900), .write = Seconds(30), .read = Seconds(60)},
          .trainings = 100};
}

/// Warm-up 6 ms, then steps of 6, 7, 6 and 8 ms: 6.75 ms on average, with a median of 6.5 ms.
Report report_of(const Scenario& toy_scenario,
                 std::optional<double> speed_without_one = std::nullopt) {
  const Schedule schedule = ddp_schedule(5);
  const Trace trace = ddp_trace({6, 12, 19, 25, 33});
  return summarize({.scenario = toy_scenario,
                    .schedule = schedule,
                    .trace = trace,
                    .fidelity = "flow",
                    .provenance = "",
                    .assumptions = {},
                    .outside_calibration = {},
                    .speed_without_one = speed_without_one});
}

Seconds parts_of(const Report& report) {
  const GoodputReport& goodput = *report.goodput;
  return *report.train_time + goodput.checkpoint_time + goodput.lost + goodput.recovery +
         goodput.waiting + goodput.slower + goodput.start;
}

double sum_of(const CostParts& parts) {
  return parts.training + parts.failures + parts.start + parts.energy;
}

}  // namespace

BOOST_AUTO_TEST_CASE(nothing_is_said_of_what_was_not_asked) {
  const Report report = report_of(priced());
  BOOST_TEST(!report.energy.has_value());
  BOOST_TEST(!report.goodput.has_value());
  BOOST_TEST(!report.start.has_value());
  BOOST_TEST(*report.cost->usd == 135, kExact);  // 2 nodes, 6.75 h, 10 USD
  BOOST_TEST(report.cost->usd_by_part->training == 135, kExact);
  BOOST_TEST(!report.cost->energy_kwh.has_value());
}

BOOST_AUTO_TEST_CASE(a_rank_that_computes_less_draws_less) {
  // Over the 27 ms of four steps rank 0 computes 4 x 3.5 ms and waits 4 x 2 ms for what is sent
  // (from 3 to 5 ms), rank 1 4 x 2 ms and 4 x 3 ms (from 2 to 5 ms).
  Scenario toy_scenario = priced();
  toy_scenario.energy = EnergyOptions{.compute = 1,
                                      .communication = 0.5,
                                      .idle = 0.1,
                                      .host = Watts(200),
                                      .pue = 1.25,
                                      .grid_gco2_per_kwh = 500,
                                      .usd_per_kwh = 0.1};
  const Report report = report_of(toy_scenario);
  const double first = (14 * 1 + 8 * 0.5 + 5 * 0.1) / 27,
               second = (8 * 1 + 12 * 0.5 + 7 * 0.1) / 27;
  const double gpus = 400 * (first + second);
  BOOST_TEST(report.energy->gpus_w == gpus, kExact);
  BOOST_TEST(report.energy->hosts_w == 400, kExact);
  BOOST_TEST(report.energy->power_w == 1.25 * (gpus + 400), kExact);
  BOOST_TEST(report.energy->step_j == 1.25 * (gpus + 400) * 6.75e-3, kExact);
  const double kwh = 1.25 * (gpus + 400) / 1000 * 6.75;
  BOOST_TEST(*report.cost->energy_kwh == kwh, kExact);
  BOOST_TEST(*report.cost->co2_kg == kwh / 2, kExact);
  BOOST_TEST(*report.cost->usd == 135 + kwh / 10, kExact);
  BOOST_TEST(sum_of(*report.cost->usd_by_part) == *report.cost->usd, kExact);
}

BOOST_AUTO_TEST_CASE(failures_lengthen_and_raise_what_a_training_takes) {
  Scenario toy_scenario = priced();
  toy_scenario.failures = failures();
  const Report report = report_of(toy_scenario);
  const GoodputReport& goodput = *report.goodput;
  BOOST_TEST(goodput.job_mtbf.value() == 50 * 3600, kExact);
  BOOST_TEST(goodput.exact);
  BOOST_TEST(goodput.checkpoints == 27, kExact);  // 6.75 h in quarters
  BOOST_TEST(parts_of(report).value() == goodput.expected_time.value(), kExact);
  BOOST_TEST(goodput.share == 24300 / goodput.expected_time.value(), kExact);
  BOOST_TEST(*report.cost->usd == 20 * goodput.expected_time.value() / 3600, kExact);
  BOOST_TEST(report.cost->usd_by_part->training == 135, kExact);
  BOOST_TEST(sum_of(*report.cost->usd_by_part) == *report.cost->usd, kExact);
}

BOOST_AUTO_TEST_CASE(spot_nodes_are_cheaper_and_taken_away) {
  Scenario toy_scenario = priced();
  toy_scenario.failures = failures();
  toy_scenario.train.market = Market::spot;
  const Report report = report_of(toy_scenario);
  // Once in 100 h and once in 25 h: once in 20 h, two nodes once in 10 h.
  BOOST_TEST(report.goodput->job_mtbf.value() == 10 * 3600, kExact);
  BOOST_TEST(report.cost->usd_by_part->training == 2 * 4 * 6.75, kExact);
}

BOOST_AUTO_TEST_CASE(reserved_nodes_cost_their_own_price_and_stay) {
  Scenario toy_scenario = priced();
  toy_scenario.failures = failures();
  toy_scenario.train.market = Market::reserved;
  toy_scenario.cluster.groups[0].node.prices.reserved = 6;
  const Report report = report_of(toy_scenario);
  BOOST_TEST(report.goodput->job_mtbf.value() == 50 * 3600, kExact);
  BOOST_TEST(report.cost->usd_by_part->training == 2 * 6 * 6.75, kExact);
}

BOOST_AUTO_TEST_CASE(a_cost_says_which_price_it_rests_on) {
  Scenario toy_scenario = priced();
  const std::vector<std::string> given = {"10.00 USD a node and hour, on demand, as given"};
  BOOST_TEST(report_of(toy_scenario).cost->prices == given, boost::test_tools::per_element());
  toy_scenario.cluster.groups[0].node.prices = {};
  BOOST_TEST(report_of(toy_scenario).cost->prices.empty());
}

BOOST_AUTO_TEST_CASE(spares_are_paid_for) {
  Scenario toy_scenario = priced();
  toy_scenario.failures = failures();
  toy_scenario.failures->on_failure = OnFailure::spare;
  toy_scenario.failures->spares = 3;
  toy_scenario.failures->repair = Seconds(3600);
  const Report report = report_of(toy_scenario);
  BOOST_TEST(*report.cost->usd == 50 * report.goodput->expected_time.value() / 3600, kExact);
  BOOST_TEST(report.cost->gpu_hours == 2 * report.goodput->expected_time.value() / 3600, kExact);
  BOOST_TEST(parts_of(report).value() == report.goodput->expected_time.value(), kExact);
}

BOOST_AUTO_TEST_CASE(a_simulated_speed_of_fewer_nodes_counts) {
  Scenario toy_scenario = priced();
  toy_scenario.failures = failures();
  toy_scenario.failures->on_failure = OnFailure::continue_with_fewer;
  toy_scenario.failures->repair = Seconds(10 * 3600);
  const Report slow = report_of(toy_scenario, 0.4), fast = report_of(toy_scenario, 0.8);
  BOOST_TEST(fast.goodput->slower.value() < slow.goodput->slower.value());
  BOOST_TEST(fast.goodput->expected_time.value() < slow.goodput->expected_time.value());
  BOOST_TEST(parts_of(slow).value() == slow.goodput->expected_time.value(), kExact);
}

BOOST_AUTO_TEST_CASE(a_gang_waits_and_pays_for_it) {
  Scenario toy_scenario = priced();
  toy_scenario.start = StartOptions{.arrivals = {.at = {Seconds(0), Seconds(1800)}}};
  const Report report = report_of(toy_scenario);
  BOOST_TEST(report.start->first_step.value() == 1800);
  BOOST_TEST(report.goodput->expected_time.value() == 24300 + 1800, kExact);
  // One node waits for half an hour.
  BOOST_TEST(report.cost->usd_by_part->start == 5, kExact);
  BOOST_TEST(*report.cost->usd == 140, kExact);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_holds_parameters_and_state_and_goes_where_the_strategy_puts_it) {
  Scenario toy_scenario = priced();
  toy_scenario.failures = failures();
  toy_scenario.failures->checkpoint = {.storage = BytesPerSecond(1e9),
                                       .storage_per_node = BytesPerSecond(1e8)};
  toy_scenario.optimizer.kind = OptimizerKind::adamw;
  // fp32: 4 bytes, and two states of 4.
  const double bytes = 12 * static_cast<double>(toy_scenario.model.parameters());
  const Checkpoint replicated = checkpoint_of(toy_scenario);
  BOOST_TEST(replicated.size.value() == bytes, kExact);
  BOOST_TEST(replicated.write.value() == bytes / 1e8, kExact);     // by one node
  BOOST_TEST(replicated.read.value() == 2 * bytes / 2e8, kExact);  // whole, by both
  toy_scenario.strategy = TorchFsdp1{};
  const Checkpoint sharded = checkpoint_of(toy_scenario);
  BOOST_TEST(sharded.write.value() == bytes / 2e8, kExact);
  BOOST_TEST(sharded.read.value() == bytes / 2e8, kExact);
}

BOOST_AUTO_TEST_SUITE_END()
