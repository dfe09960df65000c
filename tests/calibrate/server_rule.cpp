// The server without its network: who may read, what is applied, how stale it is.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "server/update_rule.hpp"

BOOST_AUTO_TEST_SUITE(server_rule_test)

using namespace rehearse;
namespace data = boost::unit_test::data;

namespace {

std::vector<std::byte> bytes(const std::vector<double>& values) {
  const auto all = std::as_bytes(std::span(values));
  return {all.begin(), all.end()};
}

std::vector<double> values(const std::vector<std::byte>& all) {
  std::vector<double> result(all.size() / sizeof(double));
  std::memcpy(result.data(), all.data(), all.size());
  return result;
}

UpdateRule rule_of(UpdateRuleOptions options, const std::vector<double>& initial = {0}) {
  UpdateRule rule(options);
  rule.set_parameters(ElementType::float64, bytes(initial));
  return rule;
}

/// The worker reads now and pushes this gradient of what it read, later.
struct Read {
  std::size_t worker;
  std::uint64_t iteration, version;
};
Read read(const UpdateRule& rule, std::size_t worker) {
  BOOST_REQUIRE(rule.may_read(worker));
  return {worker, rule.next_iteration(worker), rule.version()};
}
void push(UpdateRule& rule, const Read& read, const std::vector<double>& gradient = {1}) {
  rule.push({read.worker, read.iteration, read.version, bytes(gradient)}, Seconds(0));
}
void step(UpdateRule& rule, std::size_t worker) { push(rule, read(rule, worker)); }

}  // namespace

// --- staleness

BOOST_AUTO_TEST_CASE(staleness_is_what_was_applied_between_the_pull_and_the_push) {
  // 0 and 1 read version 0; 0 applies twice; 1 comes third, two updates late; then 0 pushes what it
  // read after its second update, one update late.
  UpdateRule rule = rule_of({.workers = 2, .mode = ServerMode::asynchronous, .sgd = {}});
  const Read slow = read(rule, 1);
  step(rule, 0);
  step(rule, 0);
  const Read third = read(rule, 0);
  push(rule, slow);
  push(rule, third);
  const std::vector<std::uint64_t> worker = {0, 0, 1, 0}, read_at = {0, 1, 0, 2},
                                   stale = {0, 0, 2, 1};
  BOOST_REQUIRE(rule.log().size() == 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const AppliedUpdate& update = rule.log()[i];
    BOOST_TEST(update.worker == worker[i]);
    BOOST_TEST(update.version_read == read_at[i]);
    BOOST_TEST(update.version_applied == i);
    BOOST_TEST(update.staleness() == stale[i]);
  }
  const StalenessSummary summary = summarize_staleness(rule.log());
  BOOST_TEST(summary.mean == 0.75);
  BOOST_TEST(summary.max == 2u);
  BOOST_TEST(summary.histogram.at(0) == 2u);
}

BOOST_AUTO_TEST_CASE(equal_workers_in_turn_are_as_stale_as_there_are_others) {
  // Homogeneous N workers have mean staleness N - 1 once all have begun.
  UpdateRule rule = rule_of({.workers = 4, .mode = ServerMode::asynchronous, .sgd = {}});
  std::vector<Read> reads;
  for (std::size_t w = 0; w < 4; ++w) reads.push_back(read(rule, w));
  for (std::size_t turn = 0; turn < 40; ++turn) {
    push(rule, reads[turn % 4]);
    reads[turn % 4] = read(rule, turn % 4);
  }
  for (std::size_t i = 4; i < 40; ++i) BOOST_TEST(rule.log()[i].staleness() == 3u);
}

BOOST_AUTO_TEST_CASE(an_update_over_several_servers_is_as_stale_as_its_stalest_part) {
  const UpdateLog first = {{0, 0, 0, 0, Seconds(1)}, {1, 0, 0, 1, Seconds(2)}};
  const UpdateLog second = {{1, 0, 0, 0, Seconds(1)}, {0, 0, 0, 1, Seconds(2)}};
  const UpdateLog merged = stalest_of({first, second});
  BOOST_TEST(merged[0].staleness() == 0u);  // a first update finds nothing before it to be stale by
  BOOST_TEST(merged[1].staleness() == 1u);
}

BOOST_AUTO_TEST_CASE(a_warm_up_is_of_rounds_in_which_all_count) {
  // Two rounds of the mean gradient (2 + 4) / 2, then each on its own: -2 * 3 - 2 - 4.
  UpdateRule rule = rule_of({.workers = 2,
                             .mode = ServerMode::asynchronous,
                             .warmup_rounds = 2,
                             .sgd = {.learning_rate = 1}});
  for (int round = 0; round < 2; ++round) {
    push(rule, read(rule, 0), {2});
    BOOST_TEST(!rule.may_read(0));  // it waits for the other one
    push(rule, read(rule, 1), {4});
  }
  BOOST_TEST(rule.version() == 2u);
  BOOST_TEST(rule.next_iteration(0) == 2u);
  push(rule, read(rule, 0), {2});
  BOOST_TEST(rule.may_read(0));
  push(rule, read(rule, 1), {4});
  BOOST_TEST(values(*rule.snapshot())[0] == -12);
  BOOST_TEST(rule.log().back().version_applied == 3u);
}

BOOST_AUTO_TEST_CASE(rounds_alone_need_no_warm_up) {
  BOOST_CHECK_THROW(UpdateRule({.workers = 2, .warmup_rounds = 1, .sgd = {}}), InputError);
}

BOOST_AUTO_TEST_CASE(a_staleness_aware_update_is_divided_by_its_staleness) {
  // Worker 1 reads at 0; worker 0 applies three; worker 1's gradient 6 then counts for 6 / 3.
  UpdateRule rule = rule_of({.workers = 2,
                             .mode = ServerMode::asynchronous,
                             .sgd = {.learning_rate = 1, .staleness_aware = true}});
  const Read slow = read(rule, 1);
  for (int i = 0; i < 3; ++i) step(rule, 0);
  push(rule, slow, {6});
  BOOST_TEST(values(*rule.snapshot())[0] == -3 - 2);
}

BOOST_AUTO_TEST_CASE(delay_compensation_adds_lambda_g_g_times_what_was_missed) {
  // Worker 1 reads at w = 0; worker 0 leads to w = -1; g = 3 becomes 3 + 0.5 * 9 * -1 = -1.5.
  UpdateRule rule = rule_of({.workers = 2,
                             .mode = ServerMode::asynchronous,
                             .sgd = {.learning_rate = 1, .delay_compensation = 0.5}});
  const Read slow = read(rule, 1);
  rule.read(1);
  const Read quick = read(rule, 0);
  rule.read(0);
  push(rule, quick);
  push(rule, slow, {3});
  BOOST_TEST(values(*rule.snapshot())[0] == -1 + 1.5);
}

BOOST_AUTO_TEST_CASE(the_time_in_which_all_train_ends_with_the_first_worker_s_last_update) {
  const Seconds now(0);
  const UpdateLog log = {{0, 0, 0, 0, now},
                         {1, 0, 0, 1, now},
                         {0, 1, 1, 2, now},
                         {1, 1, 2, 3, now},
                         {1, 2, 4, 4, now}};
  BOOST_TEST(while_all_train(log).size() == 3u);
  BOOST_TEST(while_all_train({}).empty());
}

// --- who may read

BOOST_DATA_TEST_CASE(a_worker_runs_ahead_by_the_bound_and_no_further, data::make({0, 1, 3}),
                     bound) {
  const auto s = static_cast<std::uint64_t>(bound);
  UpdateRule rule = rule_of({.workers = 2, .mode = ServerMode::bounded, .staleness = s, .sgd = {}});
  for (std::uint64_t ahead = 0; ahead <= s; ++ahead) step(rule, 0);
  BOOST_TEST(!rule.may_read(0));  // s + 1 ahead
  step(rule, 1);
  BOOST_TEST(rule.may_read(0));
}

BOOST_AUTO_TEST_CASE(without_a_bound_it_runs_on) {
  UpdateRule rule = rule_of({.workers = 2, .mode = ServerMode::asynchronous, .sgd = {}});
  for (int i = 0; i < 100; ++i) step(rule, 0);
  BOOST_TEST(rule.may_read(0));
}

BOOST_AUTO_TEST_CASE(the_clock_of_a_finished_worker_holds_nobody_back) {
  UpdateRule rule = rule_of({.workers = 2, .mode = ServerMode::bounded, .staleness = 0, .sgd = {}});
  step(rule, 0);
  BOOST_TEST(!rule.may_read(0));
  rule.finish(1);
  BOOST_TEST(rule.may_read(0));
}

BOOST_AUTO_TEST_CASE(a_synchronous_worker_waits_for_its_round) {
  UpdateRule rule = rule_of({.workers = 2, .sgd = {}});
  const Read other = read(rule, 1);
  step(rule, 0);
  BOOST_TEST(!rule.may_read(0));
  BOOST_TEST(!rule.reason_stuck().has_value());
  push(rule, other);
  BOOST_TEST(rule.may_read(0));
  BOOST_TEST(rule.version() == 1u);
}

BOOST_AUTO_TEST_CASE(a_round_that_can_never_be_full_is_named) {
  UpdateRule rule = rule_of({.workers = 3, .sgd = {}});
  step(rule, 0);
  rule.finish(1);
  BOOST_REQUIRE(rule.reason_stuck().has_value());
  BOOST_TEST(*rule.reason_stuck() == "round 0 waits for 3 workers, of which only 2 are left");
}

// --- what is applied

BOOST_AUTO_TEST_CASE(a_synchronous_round_applies_the_mean) {
  // 10 - 0.5 * (1 + 2 + 6) / 3 = 8.5
  UpdateRule rule = rule_of({.workers = 3, .sgd = {.learning_rate = 0.5}}, {10});
  std::vector<Read> reads;
  for (std::size_t w = 0; w < 3; ++w) reads.push_back(read(rule, w));
  push(rule, reads[2], {6});
  push(rule, reads[0], {1});
  BOOST_TEST(values(*rule.snapshot())[0] == 10);
  push(rule, reads[1], {2});
  BOOST_TEST(values(*rule.snapshot())[0] == 8.5);
  for (const AppliedUpdate& update : rule.log()) BOOST_TEST(update.staleness() == 0u);
}

BOOST_AUTO_TEST_CASE(the_order_of_arrival_does_not_change_a_single_bit) {
  const std::vector<double> gradients = {0.1, 1e16, -1e16};
  std::vector<double> results;
  for (const auto& order : {std::vector<std::size_t>{0, 1, 2}, {2, 0, 1}, {1, 2, 0}}) {
    UpdateRule rule = rule_of({.workers = 3, .sgd = {.learning_rate = 1}});
    for (const std::size_t w : order) push(rule, {w, 0, 0}, {gradients[w]});
    results.push_back(values(*rule.snapshot())[0]);
  }
  BOOST_TEST(results[0] == results[1]);
  BOOST_TEST(results[0] == results[2]);
}

BOOST_AUTO_TEST_CASE(with_a_backup_worker_the_first_come_and_the_late_gradient_is_dropped) {
  UpdateRule rule = rule_of({.workers = 3, .backup_workers = 1, .sgd = {.learning_rate = 1}}, {0});
  const Read late = read(rule, 1);
  push(rule, read(rule, 0), {2});
  push(rule, read(rule, 2), {4});
  BOOST_TEST(values(*rule.snapshot())[0] == -3);
  push(rule, late, {100});
  BOOST_TEST(values(*rule.snapshot())[0] == -3);
  BOOST_TEST(rule.dropped() == 1u);
  BOOST_TEST(rule.next_iteration(1) == 1u);  // it joins the round that is open
}

// Of a constant pseudo-gradient g the momentum after k steps is g (1 - m^k) / (1 - m), and a step
// leads g + m times that.
BOOST_AUTO_TEST_CASE(nesterov_s_step_of_a_constant_is_a_sum_of_powers) {
  constexpr double kRate = 0.7, kMomentum = 0.9, kGradient = 0.25;
  UpdateRule rule =
      rule_of({.workers = 1,
               .mode = ServerMode::asynchronous,
               .sgd = {.learning_rate = kRate, .momentum = kMomentum, .nesterov = true}});
  double expected = 0;
  for (int k = 1; k <= 20; ++k) {
    push(rule, read(rule, 0), {kGradient});
    const double momentum = kGradient * (1 - std::pow(kMomentum, k)) / (1 - kMomentum);
    expected -= kRate * (kGradient + kMomentum * momentum);
    BOOST_TEST(std::abs(values(*rule.snapshot())[0] - expected) < 1e-12 * std::abs(expected));
  }
}

BOOST_AUTO_TEST_CASE(momentum_is_torch_s) {
  // v: 1, 1.9, 2.71; p: -0.1 * (1 + 1.9 + 2.71)
  UpdateRule rule = rule_of({.workers = 1, .sgd = {.learning_rate = 0.1, .momentum = 0.9}});
  for (int i = 0; i < 3; ++i) step(rule, 0);
  BOOST_TEST(values(*rule.snapshot())[0] == -0.561, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(a_copy_that_was_handed_out_stays_as_it_was) {
  UpdateRule rule = rule_of({.workers = 1, .sgd = {.learning_rate = 1}});
  const auto before = rule.snapshot();
  step(rule, 0);
  BOOST_TEST(values(*before)[0] == 0);
  BOOST_TEST(values(*rule.snapshot())[0] == -1);
}

// --- what does not fit

BOOST_AUTO_TEST_CASE(options_that_contradict_each_other_are_refused) {
  BOOST_CHECK_THROW(UpdateRule({.workers = 0, .sgd = {}}), InputError);
  BOOST_CHECK_THROW(UpdateRule({.workers = 2, .backup_workers = 2, .sgd = {}}), InputError);
  BOOST_CHECK_THROW(
      UpdateRule({.workers = 3, .mode = ServerMode::asynchronous, .backup_workers = 1, .sgd = {}}),
      InputError);
}

BOOST_AUTO_TEST_CASE(an_iteration_is_pushed_once_and_on_a_version_that_was) {
  UpdateRule rule = rule_of({.workers = 1, .mode = ServerMode::asynchronous, .sgd = {}});
  push(rule, {0, 0, 0});
  BOOST_CHECK_THROW(push(rule, {0, 0, 0}), MissingError);
  BOOST_CHECK_THROW(push(rule, {0, 1, 9}), MissingError);
}

BOOST_AUTO_TEST_SUITE_END()
