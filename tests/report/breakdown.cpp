#include <boost/test/unit_test.hpp>

#include "report/anatomy.hpp"
#include "report/intervals.hpp"
#include "report/run_facts.hpp"
#include "toy.hpp"

BOOST_AUTO_TEST_SUITE(breakdown_test)

using namespace toy;

namespace {

Ends<Seconds> interval(double low, double high) { return {Seconds(low), Seconds(high)}; }
const auto kExact = boost::test_tools::tolerance(1e-12);

}  // namespace

BOOST_AUTO_TEST_CASE(united_intervals_are_sorted_clipped_and_disjoint) {
  // [0,2] and [1,3] overlap, [3,4] touches, [6,9] is clipped at 8, [9,9] is empty.
  const Intervals united =
      unite({interval(6, 9), interval(0, 2), interval(9, 9), interval(3, 4), interval(1, 3)},
            interval(0.5, 8));
  BOOST_REQUIRE(united.size() == 2u);
  BOOST_TEST(united[0].low.value() == 0.5);
  BOOST_TEST(united[0].high.value() == 4);
  BOOST_TEST(united[1].low.value() == 6);
  BOOST_TEST(length(united).value() == 5.5);
}

BOOST_AUTO_TEST_CASE(an_intersection_is_what_both_cover) {
  const Intervals common = intersect({interval(0, 4), interval(5, 9)},
                                     {interval(1, 2), interval(3, 6), interval(9, 10)});
  BOOST_TEST(common.size() == 3u);
  BOOST_TEST(length(common).value() == 3);  // [1,2], [3,4], [5,6]
}

BOOST_AUTO_TEST_CASE(a_step_splits_into_compute_exposed_communication_and_idle) {
  // Rank 0: compute 1 + 2 + 0.5 = 3.5, the all_reduce [2, 5] hidden in [2, 3] and exposed in [3,
  // 5], idle 0.5. Rank 1: compute 0.5 + 1 + 0.5 = 2, exposed 3, idle [1.5, 2] and [5.5, 6]. Means
  // of the two, in ms.
  const Breakdown mean = break_down(ddp_schedule(3), ddp_trace({6, 12, 18}), 1, 3);
  BOOST_TEST(mean.compute.value() == 2.75e-3, kExact);
  BOOST_TEST(mean.exposed_communication.value() == 2.5e-3, kExact);
  BOOST_TEST(mean.hidden_communication.value() == 0.5e-3, kExact);
  BOOST_TEST(mean.idle.value() == 0.75e-3, kExact);
  BOOST_TEST((mean.compute + mean.exposed_communication + mean.idle).value() == 6e-3, kExact);
}

BOOST_AUTO_TEST_CASE(only_the_asked_iterations_count) {
  // The first iteration's 94 ms of idle time lie outside.
  const Breakdown mean = break_down(ddp_schedule(2), ddp_trace({100, 106}), 1, 2);
  BOOST_TEST(mean.idle.value() == 0.75e-3, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(ranks_that_were_not_recorded_do_not_count) {
  Trace trace = ddp_trace({6});
  trace.recorded_ranks = 1;
  BOOST_TEST(break_down(ddp_schedule(1), trace, 0, 1).compute.value() == 3.5e-3, kExact);
}

BOOST_AUTO_TEST_CASE(a_worker_waits_while_the_server_works_on_its_gradient) {
  // One worker: pull 1, compute 0.5, push 1, then 8.5 until its update is in (queue 7.5, work 1).
  const Schedule schedule = server_schedule(1, 1);
  const Anatomy anatomy = dissect(schedule, saturated_trace(1, 1), 0, 1);
  BOOST_TEST(anatomy.breakdown.compute.value() == 0.5e-3, kExact);
  BOOST_TEST(anatomy.breakdown.exposed_communication.value() == 2e-3, kExact);
  BOOST_TEST(anatomy.breakdown.idle.value() == 8.5e-3, kExact);
  BOOST_TEST(anatomy.waiting_for_server.value() == 8.5e-3, kExact);
  BOOST_TEST(anatomy.exposed_by.at("pull").value() == 1e-3, kExact);
  BOOST_TEST(bottleneck_sentence(anatomy, true) ==
             "server: 77 % of the step a worker waits for the server's queue and update");
}

BOOST_AUTO_TEST_CASE(the_slowest_rank_is_the_one_that_computes_longest) {
  const Anatomy anatomy = dissect(ddp_schedule(1), ddp_trace({6}), 0, 1);
  BOOST_TEST(anatomy.slowest.index() == 0u);
  BOOST_TEST(anatomy.slowest_ratio == 1.75, kExact);                 // 3.5 over 2
  BOOST_TEST(anatomy.waiting_for_peers.value() == 0.25e-3, kExact);  // [1.5, 2] of rank 1 only
}

namespace {

Anatomy anatomy_of(double compute, double exposed, double hidden, double idle) {
  Anatomy anatomy;
  anatomy.breakdown = {ms(compute), ms(exposed), ms(hidden), ms(idle)};
  anatomy.step = ms(compute + exposed + idle);
  if (exposed + hidden > 0) anatomy.exposed_by["all_reduce"] = ms(exposed);
  return anatomy;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_bottleneck_is_told_with_its_share_and_what_a_faster_network_could_save) {
  // 20 ms in flight; twice as fast they take 10, so 8 exposed ms could all vanish, of 15 only 10.
  BOOST_TEST(bottleneck_sentence(anatomy_of(91, 8, 12, 1), false) ==
             "compute: 91 % of the step; a 2x faster network would save at most 8.00 ms");
  BOOST_TEST(bottleneck_sentence(anatomy_of(10, 15, 5, 0), false) ==
             "network: 60 % of the step is exposed all_reduce; a 2x faster one would save at most "
             "10.0 ms");
  BOOST_TEST(bottleneck_sentence(anatomy_of(100, 0, 10, 0), false) ==
             "compute: 100 % of the step; all communication is hidden behind it");
  BOOST_TEST(bottleneck_sentence(anatomy_of(100, 0, 0, 0), false) ==
             "compute: 100 % of the step; nothing is communicated");
}

BOOST_AUTO_TEST_CASE(a_straggler_is_the_bottleneck_before_the_others_wait_for_most_of_the_step) {
  Anatomy anatomy = anatomy_of(68, 2, 5, 30);
  anatomy.waiting_for_peers = ms(29);
  anatomy.slowest = RankId(5);
  anatomy.slowest_ratio = 1.5;
  BOOST_TEST(bottleneck_sentence(anatomy, false) ==
             "waiting for the slowest rank: 29 % of the step (rank 5 computes 1.50 times as long "
             "as the median)");
  anatomy.slowest_ratio = 1.01;
  BOOST_TEST(bottleneck_sentence(anatomy, false).starts_with("compute: 68 %"));
}

BOOST_AUTO_TEST_CASE(a_host_that_is_behind_is_the_bottleneck) {
  Anatomy anatomy = anatomy_of(76, 2, 5, 22);
  anatomy.waiting_for_host = ms(20);
  BOOST_TEST(bottleneck_sentence(anatomy, false) ==
             "the host: 20 % of the step a GPU waits for kernels that are not launched yet");
  anatomy.waiting_for_peers = ms(21);
  BOOST_TEST(bottleneck_sentence(anatomy, false).starts_with("compute: 76 %"));
}

// A host's lane that is at work all the time; batches made ready are no launches.
BOOST_AUTO_TEST_CASE(a_gpu_waits_for_what_is_not_launched) {
  Schedule schedule = ddp_schedule(1);
  Program& program = schedule.programs.front();
  const LaneId host(program.lanes.size());
  program.lanes.push_back({.name = "host", .kind = LaneKind::host});
  const OpId launch(program.ops.size());
  program.ops.push_back({.verb = Verb::launch, .lane = host, .work = Compute{ms(3)}});
  Trace trace = ddp_trace({6});
  trace.spans.push_back(
      {.rank = RankId(0), .op = launch, .ready = ms(0), .start = ms(0), .end = ms(6)});
  const Anatomy anatomy = dissect(schedule, trace, 0, 1);
  BOOST_TEST(anatomy.breakdown.idle.value() == 0.75e-3, kExact);
  BOOST_TEST(anatomy.waiting_for_host.value() == 0.25e-3, kExact);  // all that rank 0 is idle
  program.ops.back().verb = Verb::load;
  BOOST_TEST(dissect(schedule, trace, 0, 1).waiting_for_host.value() == 0);
}

BOOST_AUTO_TEST_CASE(waiting_is_told_with_whom_it_waits_for) {
  Anatomy anatomy = anatomy_of(30, 10, 0, 60);
  BOOST_TEST(bottleneck_sentence(anatomy, false) ==
             "waiting: 60 % of the step neither computes nor communicates");
  anatomy.waiting_for_peers = ms(50);
  BOOST_TEST(bottleneck_sentence(anatomy, false) ==
             "waiting for the slowest rank: 50 % of the step (their compute times vary)");
  anatomy.slowest = RankId(3);
  anatomy.slowest_ratio = 2;
  BOOST_TEST(bottleneck_sentence(anatomy, false) ==
             "waiting for the slowest rank: 50 % of the step (rank 3 computes 2.00 times as long "
             "as the median)");
}

BOOST_AUTO_TEST_SUITE_END()
