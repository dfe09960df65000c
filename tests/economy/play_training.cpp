#include <boost/test/unit_test.hpp>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "economy/goodput.hpp"

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(play_training_test)
namespace {

const auto kExact = boost::test_tools::tolerance(1e-12);
constexpr double kNever = std::numeric_limits<double>::infinity();

/// 100 s of work, a checkpoint of 1 s every 10 s; a recovery takes 2 + 2 + 1 s. Times between
/// failures are those of the job in seconds while all its nodes are there.
Interruptions job(int nodes) {
  return {.work = Seconds(100),
          .nodes = nodes,
          .mean_life = Seconds(nodes),
          .detect = Seconds(2),
          .restart = Seconds(2),
          .read = Seconds(1),
          .write = Seconds(1),
          .repair = Seconds(1000),
          .shortest_interval = Seconds(0.1)};
}

/// Fails at these times between failures, then never.
TrainingTimes play(const Interruptions& interruptions, std::vector<double> gaps) {
  std::size_t at = 0;
  return play_training(
      interruptions, Seconds(10), [&] { return at < gaps.size() ? gaps[at++] : kNever; }, 100);
}

void check_parts(const Interruptions& interruptions, const TrainingTimes& times) {
  const Seconds sum = interruptions.work + times.checkpoints + times.lost + times.recovery +
                      times.waiting + times.slower;
  BOOST_TEST(times.total.value() == sum.value(), kExact);
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_failures_a_training_takes_its_work_and_its_checkpoints) {
  const TrainingTimes times = play(job(1), {});
  BOOST_TEST(times.total.value() == 100 + 10, kExact);
  BOOST_TEST(times.written == 10);
  BOOST_TEST(times.failures == 0);
  check_parts(job(1), times);
}

BOOST_AUTO_TEST_CASE(a_failure_takes_back_to_the_last_checkpoint) {
  // At 25 s two cycles of 11 s are whole: 3 s are lost, 80 s of work and 8 checkpoints are left.
  const TrainingTimes times = play(job(1), {25});
  BOOST_TEST(times.total.value() == 25 + 5 + 88, kExact);
  BOOST_TEST(times.lost.value() == 3, kExact);
  BOOST_TEST(times.recovery.value() == 5, kExact);
  BOOST_TEST(times.written == 10);
  check_parts(job(1), times);
}

BOOST_AUTO_TEST_CASE(a_failure_while_the_job_recovers_begins_the_recovery_again) {
  const TrainingTimes times = play(job(1), {25, 3});
  BOOST_TEST(times.total.value() == 25 + 3 + 5 + 88, kExact);
  BOOST_TEST(times.failures == 2);
  check_parts(job(1), times);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_is_struck_is_no_checkpoint) {
  // At 21.5 s the second is being written.
  const TrainingTimes times = play(job(1), {21.5});
  BOOST_TEST(times.lost.value() == 10.5, kExact);
  BOOST_TEST(times.total.value() == 21.5 + 5 + 99, kExact);
}

BOOST_AUTO_TEST_CASE(asynchronous_checkpoints_delay_nothing_and_hold_once_they_are_whole) {
  Interruptions asynchronous = job(1);
  asynchronous.asynchronous = true;
  asynchronous.write = Seconds(4);
  // Only the last is waited for.
  BOOST_TEST(play(asynchronous, {}).total.value() == 104, kExact);
  // At 25 s the one of 20 s is there, at 23 s it is not yet.
  BOOST_TEST(play(asynchronous, {25}).total.value() == 25 + 5 + 84, kExact);
  BOOST_TEST(play(asynchronous, {23}).total.value() == 23 + 5 + 94, kExact);
  check_parts(asynchronous, play(asynchronous, {25, 23, 1, 60}));
}

BOOST_AUTO_TEST_CASE(without_a_spare_the_job_waits_until_a_node_is_repaired) {
  Interruptions spare = job(2);
  spare.on_failure = OnFailure::spare;
  spare.spares = 1;
  // The spare is there at 25 s; at 35 s there is none until the first node is back at 1025 s.
  const TrainingTimes times = play(spare, {25, 10});
  BOOST_TEST(times.waiting.value() == 990, kExact);
  BOOST_TEST(times.total.value() == 1025 + 5 + 88, kExact);
  check_parts(spare, times);
  spare.spares = 2;
  BOOST_TEST(play(spare, {25, 10}).waiting.value() == 0);
}

BOOST_AUTO_TEST_CASE(a_job_that_goes_on_with_fewer_is_slower_until_the_node_is_back) {
  Interruptions elastic = job(2);
  elastic.on_failure = OnFailure::continue_with_fewer;
  elastic.repair = Seconds(50);
  elastic.speed_without_one = 0.5;
  // 25 s, recovery to 30 s; 45 s at half speed to 75 s: four cycles and 1 s, 20.5 s of work; then a
  // checkpoint, a restart and a read to 79 s; 59.5 s of work are left, and 6 checkpoints.
  const TrainingTimes times = play(elastic, {25});
  BOOST_TEST(times.total.value() == 79 + 65.5, kExact);
  BOOST_TEST(times.slower.value() == 20.5, kExact);
  BOOST_TEST(times.recovery.value() == 5 + 4, kExact);
  BOOST_TEST(times.node_time.value() == 25 * 2 + 50 * 1 + 4 * 2 + 65.5 * 2, kExact);
  check_parts(elastic, times);
}

BOOST_AUTO_TEST_CASE(a_node_alone_that_fails_is_waited_for) {
  Interruptions elastic = job(2);
  elastic.on_failure = OnFailure::continue_with_fewer;
  elastic.speed_without_one = 0.5;
  elastic.repair = Seconds(100);
  // Both fail, at 25 s and 35 s (10 s alone are 20 node-seconds: a gap of 10).
  const TrainingTimes times = play(elastic, {25, 5});
  BOOST_TEST(times.failures == 2);
  BOOST_TEST(times.waiting.value() == 125 - 35, kExact);
  check_parts(elastic, times);
}

BOOST_AUTO_TEST_CASE(a_training_that_never_ends_is_stuck) {
  BOOST_CHECK_EXCEPTION(
      play_training(
          job(1), Seconds(10), [] { return 8.0; }, 100),
      StuckError, [](const StuckError& stuck) {
        return std::string(stuck.what()) ==
               "failures: the training does not come to its end: after 101 failures 1 min 40 s of "
               "1 min 40 s is left. The job fails every 1.00 s on average; a recovery takes 5.00 "
               "s, a checkpoint 1.00 s";
      });
}

BOOST_AUTO_TEST_SUITE_END()
