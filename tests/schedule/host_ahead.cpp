// When a GPU waits for its host, whose lane is played then, and when it does not.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "schedule/host_ahead.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(host_ahead_test)
namespace {

namespace data = boost::unit_test::data;

constexpr std::size_t kUnits = 4;

struct Step {
  double launch, compute;
  bool held_back = false;  ///< the host waits for the GPU before it launches the third unit
};

/// A rank that launches and computes units, each behind its launch, and sends what the last made.
Schedule schedule_of(const Step& step, double slowdown = 1) {
  Program program{
      .name = "worker",
      .lanes = {{"compute"}, {"host", LaneKind::host}, {"nccl", LaneKind::communication}}};
  const auto last = [&] { return OpId(program.ops.size() - 1); };
  for (std::size_t unit = 0; unit < kUnits; ++unit) {
    if (step.held_back && unit == 2)
      program.ops.push_back({.verb = Verb::wait_for, .lane = LaneId(1), .after = {{last()}}});
    program.ops.push_back({.verb = Verb::launch,
                           .lane = LaneId(1),
                           .work = Compute{.duration = Seconds(step.launch), .jittered = false}});
    program.ops.push_back({.verb = Verb::forward,
                           .lane = LaneId(0),
                           .work = Compute{.duration = Seconds(step.compute)},
                           .after = {{last()}}});
  }
  program.ops.push_back({.verb = Verb::all_reduce,
                         .lane = LaneId(2),
                         .work = Collective{.size = Bytes(8)},
                         .after = {{last()}, {OpId(last().index() - 1)}}});
  Schedule schedule;
  schedule.programs = {program};
  schedule.ranks = {{.program = ProgramId(0),
                     .place = {NodeId(0), 0},
                     .slowdown = slowdown,
                     .groups = {GroupId(0)}}};
  schedule.groups = {{.name = "world", .members = {RankId(0)}, .ranks = 1, .nodes = 1}};
  return schedule;
}

bool keeps_host(const Schedule& schedule) { return schedule.programs[0].lanes.size() == 3; }

Schedule without_hosts_ahead(Schedule schedule) {
  leave_out_hosts_ahead(schedule);
  validate(schedule);
  return schedule;
}

BOOST_DATA_TEST_CASE(a_gpu_waits_for_a_host_that_takes_longer, data::make({1.01, 2.0, 20.0}),
                     times) {
  const Schedule schedule = without_hosts_ahead(schedule_of({times, 1}));
  BOOST_TEST(keeps_host(schedule));
  BOOST_TEST(schedule.host_share > 0);
  // From half as slow as the GPU on, hosts 1.5 times as fast as it still bound the step alone.
  if (times >= 2) BOOST_TEST(schedule.host_share == 1, boost::test_tools::tolerance(1e-9));
}

// What is left computes as long, in the same order, and sends behind the same.
BOOST_AUTO_TEST_CASE(a_host_that_is_far_ahead_is_left_out) {
  const Schedule schedule = without_hosts_ahead(schedule_of({0.1, 1}));
  const Program& program = schedule.programs[0];
  BOOST_TEST(schedule.host_share == 0);
  BOOST_TEST(program.lanes.size() == 2u);
  BOOST_TEST((program.lanes[1].kind == LaneKind::communication));
  BOOST_REQUIRE_EQUAL(program.ops.size(), kUnits + 1);
  for (std::size_t unit = 0; unit < kUnits; ++unit) BOOST_TEST(program.ops[unit].after.empty());
  const Op& sent = program.ops.back();
  BOOST_TEST(sent.lane->index() == 1u);
  BOOST_REQUIRE_EQUAL(sent.after.size(), 1u);
  BOOST_TEST(sent.after[0].op.index() == kUnits - 1);
}

// Of hosts exp(0.4) times as fast and slow the slower one is felt, where a launch takes 0.8 of what
// the GPU does: the step is then 0.8 exp(0.4) of the GPU's, plus the first unit that waits.
BOOST_AUTO_TEST_CASE(a_slower_host_may_be_felt) {
  const Schedule schedule = without_hosts_ahead(schedule_of({0.8, 1}));
  BOOST_TEST(schedule.host_share > 0.9 * (std::log(0.8) + 0.4) / 0.8);
  BOOST_TEST(schedule.host_share < 1.5 * (std::log(0.8) + 0.4) / 0.8);
  // One that takes half is felt as little as no one.
  BOOST_TEST(without_hosts_ahead(schedule_of({0.5, 1})).host_share < 0.05);
}

// Once it waits for the GPU, this waits for the next launch in turn.
BOOST_AUTO_TEST_CASE(a_host_that_is_held_back_is_felt) {
  BOOST_TEST(keeps_host(without_hosts_ahead(schedule_of({0.1, 1, true}))));
}

BOOST_AUTO_TEST_CASE(a_faster_rank_may_wait) {
  BOOST_TEST(!keeps_host(without_hosts_ahead(schedule_of({0.5, 1}))));
  BOOST_TEST(keeps_host(without_hosts_ahead(schedule_of({0.5, 1}, 0.5))));
}

BOOST_AUTO_TEST_CASE(a_host_that_loads_batches_stays) {
  Schedule schedule = schedule_of({0.1, 1});
  schedule.programs[0].ops.push_back(
      {.verb = Verb::load,
       .lane = LaneId(1),
       .work = Compute{.duration = Seconds(0.1), .jittered = false}});
  BOOST_TEST(keeps_host(without_hosts_ahead(schedule)));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
