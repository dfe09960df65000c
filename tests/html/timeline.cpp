#include "html/timeline.hpp"

#include <boost/test/unit_test.hpp>
#include <map>

#include "report/toy.hpp"

using namespace toy;
using Json = nlohmann::ordered_json;

BOOST_AUTO_TEST_SUITE(timeline_test)
namespace {

struct Toy {
  Schedule schedule;
  Trace trace;
  std::vector<MemoryDevice> devices{MemoryDevice{.caching = false}};

  Json extras(Seconds step_time) const {
    return run_extras({.schedule = schedule,
                       .trace = trace,
                       .first = 0,
                       .last = static_cast<std::uint32_t>(trace.iteration_end[0].size()),
                       .step_time = step_time,
                       .devices = devices});
  }
};

/// One rank that computes `count` operations of `each` ms in each iteration, one after the other.
Toy chain(std::size_t count, double each, std::uint32_t iterations) {
  Toy toy;
  Program program{.name = "worker", .lanes = {{.name = "compute", .kind = LaneKind::compute}}};
  for (std::size_t i = 0; i < count; ++i) {
    program.ops.push_back(
        computation("op " + std::to_string(i), i < count / 2 ? Phase::forward : Phase::backward));
  }
  toy.schedule.programs = {program};
  toy.schedule.ranks.resize(1);
  toy.schedule.iterations = iterations;
  toy.trace.recorded_ranks = 1;
  toy.trace.iteration_end.resize(1);
  double now = 0;
  for (std::uint32_t iteration = 0; iteration < iterations; ++iteration) {
    for (std::size_t i = 0; i < count; ++i, now += each)
      toy.trace.spans.push_back(span(0, i, iteration, now, now, now + each));
    toy.trace.iteration_end[0].push_back(ms(now));
  }
  return toy;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_timeline_shows_one_step_from_its_beginning) {
  const Json timeline = chain(4, 10, 3).extras(ms(40)).at("timeline");
  BOOST_TEST(timeline.at("length_s").get<double>() == 0.04, boost::test_tools::tolerance(1e-9));
  BOOST_REQUIRE(timeline.at("spans").size() == 4);
  BOOST_TEST(timeline.at("lanes").at(0).at("name") == "compute");
  for (std::size_t i = 0; i < 4; ++i) {
    const Json& one = timeline.at("spans").at(i);
    BOOST_TEST(one.at(1).get<double>() == 0.01 * static_cast<double>(i),
               boost::test_tools::tolerance(1e-9));
    BOOST_TEST(timeline.at("labels").at(one.at(3).get<std::size_t>()) == "op " + std::to_string(i));
    BOOST_TEST(timeline.at("phases").at(one.at(4).get<std::size_t>()) ==
               (i < 2 ? "forward" : "backward"));
  }
}

BOOST_AUTO_TEST_CASE(the_step_is_the_one_nearest_to_the_reported_length) {
  Toy toy = chain(1, 10, 3);
  toy.trace.spans[1].end = ms(35);
  toy.trace.spans[2].start = ms(35);
  toy.trace.spans[2].end = ms(45);
  toy.trace.iteration_end[0] = {ms(10), ms(35), ms(45)};
  BOOST_TEST(toy.extras(ms(24)).at("timeline").at("iteration") == 1);
  BOOST_TEST(toy.extras(ms(11)).at("timeline").at("iteration") == 0);
}

BOOST_AUTO_TEST_CASE(a_step_of_many_short_operations_stays_small_and_loses_none) {
  const Json timeline = chain(100'000, 0.01, 1).extras(ms(1000)).at("timeline");
  BOOST_TEST(timeline.at("spans").size() <= 5000U);
  BOOST_TEST(timeline.at("operations") == 100'000);
  double covered = 0;
  std::map<std::size_t, double> by_phase;
  for (const Json& one : timeline.at("spans")) {
    const double length = one.at(2).get<double>() - one.at(1).get<double>();
    covered += length;
    by_phase[one.at(4).get<std::size_t>()] += length;
  }
  BOOST_TEST(covered == 1.0, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(by_phase[0] == 0.5, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_pipeline_shows_a_rank_of_each_stage) {
  Toy toy = chain(1, 10, 1);
  toy.schedule.programs.push_back(toy.schedule.programs[0]);
  for (std::uint32_t stage = 0; stage < 2; ++stage) toy.schedule.programs[stage].stage = stage;
  toy.schedule.ranks.resize(4);
  toy.trace.recorded_ranks = 4;
  toy.trace.iteration_end.resize(4, {ms(10)});
  for (std::size_t rank = 1; rank < 4; ++rank) {
    if (rank > 1) toy.schedule.ranks[rank].program = ProgramId(1);
    toy.trace.spans.push_back(span(rank, 0, 0, 0, 0, 10));
  }
  toy.devices.resize(2, toy.devices[0]);
  const Json lanes = toy.extras(ms(10)).at("timeline").at("lanes");
  BOOST_REQUIRE(lanes.size() == 2);
  for (std::size_t stage = 0; stage < 2; ++stage) {
    BOOST_TEST(lanes.at(stage).at("stage") == stage);
    BOOST_TEST(lanes.at(stage).at("rank") == 2 * stage);
  }
}

BOOST_AUTO_TEST_CASE(a_run_without_workers_has_no_pictures) {
  Toy toy = chain(1, 10, 1);
  toy.schedule.programs[0].ops[0].phase = Phase::host;
  BOOST_TEST(toy.extras(ms(10)).is_null());
}

BOOST_AUTO_TEST_CASE(memory_is_what_its_kinds_hold_from_each_moment_on) {
  Toy toy = chain(2, 10, 2);
  Program& program = toy.schedule.programs[0];
  program.owners = {"all"};
  program.tensors = {{.kind = MemoryKind::parameters, .size = Bytes(1000)},
                     {.kind = MemoryKind::activations, .size = Bytes(300)}};
  program.setup = {{.tensor = TensorId(0)}};
  program.ops[0].memory = {{.tensor = TensorId(1)}};
  program.ops[1].memory = {{.tensor = TensorId(1), .action = TensorEvent::Action::give}};
  const Json memory = toy.extras(ms(20)).at("memory");
  BOOST_REQUIRE(memory.size() == 1);
  const auto kind_at = [&](std::size_t sample, MemoryKind kind) {
    return memory.at(0)
        .at("samples")
        .at(sample)
        .at(1 + static_cast<std::size_t>(kind))
        .get<double>();
  };
  BOOST_TEST(memory.at(0).at("capacity_bytes").is_null());
  BOOST_TEST(kind_at(0, MemoryKind::parameters) == 1000);
  BOOST_TEST(kind_at(0, MemoryKind::activations) == 300);
}

BOOST_AUTO_TEST_SUITE_END()
