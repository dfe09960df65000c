// What validate() rejects, with its exact text, and what it accepts.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <ostream>

#include "base/error.hpp"
#include "schedule/schedule.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(validate_test)
namespace {

// Two workers on two nodes: compute, then an all_reduce of the world, then a step that signals; the
// host waits for the event of the iteration before. A third rank serves a queue.
Schedule good() {
  Program worker{
      .name = "worker",
      .lanes = {{"compute"}, {"nccl", LaneKind::communication}, {"host", LaneKind::host}}};
  worker.ops = {{.of = "backward", .lane = LaneId(0), .work = Compute{.duration = Seconds(1)}},
                {.of = "all_reduce",
                 .lane = LaneId(1),
                 .work = Collective{.size = Bytes(8)},
                 .after = {{OpId(0)}}},
                {.of = "step",
                 .lane = LaneId(0),
                 .work = Compute{.duration = Seconds(1)},
                 .after = {{OpId(1)}},
                 .signals = {EventId(0)}},
                {.of = "wait", .lane = LaneId(2), .work = Join{}, .awaits = {{EventId(0), 1}}},
                {.of = "push",
                 .lane = LaneId(1),
                 .work = Transfer{.source = {}, .target = RankId(2), .size = Bytes(8)}},
                {.of = "apply",
                 .queue = QueueId(0),
                 .work = Compute{.duration = Seconds(1)},
                 .after = {{OpId(4)}}}};
  Schedule schedule;
  schedule.programs = {worker, Program{.name = "server"}};
  for (std::size_t r = 0; r < 2; ++r)
    schedule.ranks.push_back(
        {.program = ProgramId(0), .place = {NodeId(r), 0}, .groups = {GroupId(0)}});
  schedule.ranks.push_back({.program = ProgramId(1), .place = {NodeId(0), -1}, .groups = {}});
  schedule.groups = {{.name = "world", .members = {RankId(0), RankId(1)}, .ranks = 2, .nodes = 2}};
  schedule.queues = {{.name = "server", .owner = RankId(2)}};
  schedule.events = {{.name = "stepped", .needs = 2}};
  schedule.iterations = 2;
  return schedule;
}

BOOST_AUTO_TEST_CASE(a_good_schedule_passes) { BOOST_CHECK_NO_THROW(validate(good())); }

struct Bad {
  std::string name, text;
  std::function<void(Schedule&)> change;
  friend std::ostream& operator<<(std::ostream& out, const Bad& bad) { return out << bad.name; }
};

Op& op(Schedule& schedule, std::size_t index) { return schedule.programs[0].ops[index]; }

const std::vector<Bad> kBad = {
    {"no iterations", "a schedule without iterations", [](Schedule& s) { s.iterations = 0; }},
    {"no ranks", "a schedule without ranks", [](Schedule& s) { s.ranks.clear(); }},
    {"lane and queue", "an operation is on a lane and in a queue",
     [](Schedule& s) { op(s, 0).queue = QueueId(0); }},
    {"lane id", "lane out of range", [](Schedule& s) { op(s, 0).lane = LaneId(3); }},
    {"queue id", "queue out of range", [](Schedule& s) { op(s, 5).queue = QueueId(1); }},
    {"after id", "after-edge out of range",
     [](Schedule& s) {
       op(s, 0).after = {{OpId(6), 1}};
     }},
    {"await id", "awaited event out of range",
     [](Schedule& s) {
       op(s, 0).awaits = {{EventId(1), 1}};
     }},
    {"signal id", "signalled event out of range",
     [](Schedule& s) { op(s, 0).signals = {EventId(1)}; }},
    {"program id", "program out of range", [](Schedule& s) { s.ranks[0].program = ProgramId(2); }},
    {"group id", "group out of range", [](Schedule& s) { s.ranks[0].groups = {GroupId(1)}; }},
    {"group slot", "group slot out of range", [](Schedule& s) { s.ranks[0].groups.clear(); }},
    {"group member", "group member out of range",
     [](Schedule& s) { s.groups[0].members.emplace_back(3); }},
    {"queue owner", "queue owner out of range", [](Schedule& s) { s.queues[0].owner = RankId(3); }},
    {"transfer end", "transfer end out of range",
     [](Schedule& s) {
       op(s, 4).work = Transfer{{}, RankId(3), Bytes(1)};
     }},
    {"transfer without ends", "a transfer from a rank to itself",
     [](Schedule& s) {
       op(s, 4).work = Transfer{{}, {}, Bytes(1)};
     }},
    {"negative transfer", "a size that is negative or not finite",
     [](Schedule& s) {
       op(s, 4).work = Transfer{{}, RankId(2), Bytes(-1)};
     }},
    {"endless collective", "a size that is negative or not finite",
     [](Schedule& s) {
       op(s, 1).work = Collective{.size = Bytes(std::numeric_limits<double>::infinity())};
     }},
    {"negative duration", "a duration that is negative or not finite",
     [](Schedule& s) { op(s, 0).work = Compute{.duration = Seconds(-1)}; }},
    {"duration is NaN", "a duration that is negative or not finite",
     [](Schedule& s) { op(s, 0).work = Compute{.duration = Seconds(std::nan(""))}; }},
    {"after itself", "the schedule waits for itself in a cycle",
     [](Schedule& s) { op(s, 5).after = {{OpId(5)}}; }},
    {"against lane order", "the schedule waits for itself in a cycle",
     [](Schedule& s) { op(s, 0).after = {{OpId(2)}}; }},
    {"across two lanes", "the schedule waits for itself in a cycle",
     [](Schedule& s) { op(s, 1).after = {{OpId(2)}}; }},
    {"through an event", "the schedule waits for itself in a cycle",
     [](Schedule& s) { op(s, 0).awaits = {{EventId(0)}}; }},
    {"through an event and a lane", "the schedule waits for itself in a cycle",
     [](Schedule& s) { op(s, 1).awaits = {{EventId(0)}}; }},
};

BOOST_DATA_TEST_CASE(a_malformed_schedule_is_rejected_with_its_reason,
                     boost::unit_test::data::make(kBad), bad) {
  Schedule schedule = good();
  bad.change(schedule);
  BOOST_CHECK_EXCEPTION(validate(schedule), InternalError, [&bad](const InternalError& error) {
    BOOST_TEST(error.what() == "internal error: " + bad.text);
    return true;
  });
}

// The second worker runs a program of its own, changed.
Schedule with_second_program(const std::function<void(Program&)>& change) {
  Schedule schedule = good();
  schedule.programs.push_back(schedule.programs[0]);
  change(schedule.programs[2]);
  schedule.ranks[1].program = ProgramId(2);
  return schedule;
}

std::string reason(const Schedule& schedule) {
  try {
    validate(schedule);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "accepted";
}

BOOST_AUTO_TEST_CASE(members_may_run_different_programs_that_issue_the_same_collectives) {
  BOOST_CHECK_EQUAL(reason(with_second_program([](Program& program) {
                      std::get<Compute>(program.ops[0].work).duration = Seconds(5);
                    })),
                    "accepted");
}

BOOST_AUTO_TEST_CASE(members_that_issue_collectives_in_different_orders_are_rejected) {
  Schedule schedule = with_second_program([](Program&) {});
  const Op more{.of = "all_gather",
                .lane = LaneId(1),
                .work = Collective{.kind = CollectiveKind::all_gather, .size = Bytes(4)}};
  auto& first = schedule.programs[0].ops;
  auto& second = schedule.programs[2].ops;
  first.push_back(more);
  second.push_back(more);
  BOOST_CHECK_EQUAL(reason(schedule), "accepted");
  std::swap(std::get<Collective>(second[1].work), std::get<Collective>(second.back().work));
  BOOST_CHECK_EQUAL(reason(schedule),
                    "internal error: members of a group issue different collectives");
}

BOOST_AUTO_TEST_CASE(
    members_that_issue_collectives_of_different_kinds_sizes_or_algorithms_are_rejected) {
  const Collective unlike[] = {{.kind = CollectiveKind::broadcast, .size = Bytes(8)},
                               {.size = Bytes(9)},
                               {.size = Bytes(8), .algorithm = CollectiveAlgorithm::tree}};
  for (const Collective& collective : unlike)
    BOOST_CHECK_EQUAL(
        reason(with_second_program([&](Program& program) { program.ops[1].work = collective; })),
        "internal error: members of a group issue different collectives");
}

BOOST_AUTO_TEST_CASE(a_collective_that_a_member_never_issues_is_rejected) {
  BOOST_CHECK_EQUAL(
      reason(with_second_program([](Program& program) { program.ops[1].work = Join{}; })),
      "internal error: a group's collectives are not issued by exactly its members");
}

BOOST_AUTO_TEST_CASE(a_collective_that_a_stranger_issues_in_a_member_s_stead_is_rejected) {
  Schedule schedule = good();
  schedule.groups[0].members = {RankId(0), RankId(2)};
  BOOST_CHECK_EQUAL(reason(schedule),
                    "internal error: a group's collectives are not issued by exactly its members");
}

BOOST_AUTO_TEST_CASE(a_group_that_nobody_uses_needs_no_issuers) {
  Schedule schedule = good();
  schedule.groups.push_back({.name = "spare", .members = {RankId(2)}, .ranks = 1, .nodes = 1});
  BOOST_CHECK_EQUAL(reason(schedule), "accepted");
}

BOOST_AUTO_TEST_CASE(an_edge_to_the_iteration_before_is_never_a_cycle) {
  Schedule schedule = good();
  op(schedule, 0).after = {{OpId(2), 1}, {OpId(0), 1}, {OpId(5), 2}};
  op(schedule, 1).awaits = {{EventId(0), 1}};
  BOOST_CHECK_EQUAL(reason(schedule), "accepted");
}

/// Two stages that send each other a message, each in an order of its own.
Schedule two_stages(bool same_order) {
  const auto message = [](std::size_t group, const char* label) {
    return Op{
        .of = label,
        .phase = Phase::communication,
        .lane = LaneId(0),
        .work = Collective{.kind = CollectiveKind::send_recv, .group = group, .size = Bytes(8)}};
  };
  Schedule schedule;
  for (const bool first : {true, false}) {
    Program stage{.name = first ? "stage 0" : "stage 1",
                  .lanes = {{"nccl", LaneKind::communication}}};
    const bool forwards_first = first || same_order;
    stage.ops = {message(forwards_first ? 0 : 1, forwards_first ? "activations" : "gradients"),
                 message(forwards_first ? 1 : 0, forwards_first ? "gradients" : "activations")};
    schedule.programs.push_back(stage);
  }
  for (std::size_t r = 0; r < 4; ++r)
    schedule.ranks.push_back({.program = ProgramId(r / 2),
                              .place = {NodeId(r), 0},
                              .groups = {GroupId(r % 2 * 2), GroupId(r % 2 * 2 + 1)}});
  for (const std::size_t replica : {0, 1})
    for (int i = 0; i < 2; ++i)
      schedule.groups.push_back({.name = "stages",
                                 .members = {RankId(replica), RankId(replica + 2)},
                                 .ranks = 2,
                                 .nodes = 2});
  return schedule;
}

BOOST_AUTO_TEST_CASE(ranks_of_unlike_programs_that_meet_in_another_order_wait_for_ever) {
  BOOST_CHECK_EQUAL(reason(two_stages(true)), "accepted");
  BOOST_CHECK_EQUAL(reason(two_stages(false)),
                    "internal error: the schedule waits for itself in a cycle: stage 0: "
                    "activations, stage 1: gradients");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
