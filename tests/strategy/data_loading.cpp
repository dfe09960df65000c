// A step is never shorter than its batches take to be made ready: closed forms.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(data_loading_test)
namespace {

namespace data = boost::unit_test::data;

constexpr std::size_t kUnits = 3;
constexpr double kForward = 2 * kMs, kBackward = 5 * kMs, kOptimizer = 3 * kMs;
constexpr double kPass = kUnits * (kForward + kBackward), kStep = kPass + kOptimizer;
constexpr std::uint32_t kSteps = 5;

Toy loading(double each, std::uint32_t ahead, double launch = 0) {
  Toy toy = equal_units(kUnits, {kMiB, kForward, kBackward}, kOptimizer);
  toy.costs.loading = BatchLoading{.each = Seconds(each), .ahead = ahead};
  for (UnitCost& unit : toy.costs.units)
    unit.forward_launch = unit.backward_launch = Seconds(launch);
  return toy;
}

double end_of(const Toy& toy, const Strategy& strategy = TorchDdp{}) {
  return trace_of(strategy, toy, star_cluster(1), kSteps).end.value();
}

BOOST_DATA_TEST_CASE(quick_workers_are_waited_for_once, data::make({0U, 1U, 4U}), ahead) {
  BOOST_CHECK_CLOSE(end_of(loading(10 * kMs, ahead)), 10 * kMs + kSteps * kStep, kPercent);
}

BOOST_DATA_TEST_CASE(a_step_lasts_as_long_as_slow_workers, data::make({0U, 1U, 4U}), ahead) {
  BOOST_CHECK_CLOSE(end_of(loading(40 * kMs, ahead)), kSteps * 40 * kMs + kStep, kPercent);
}

BOOST_AUTO_TEST_CASE(every_micro_batch_is_loaded) {
  const TorchDdp twice{.gradient_accumulation = 2};
  BOOST_CHECK_CLOSE(end_of(loading(15 * kMs, 4), twice), 15 * kMs + kSteps * (kStep + kPass),
                    kPercent);
  BOOST_CHECK_CLOSE(end_of(loading(30 * kMs, 4), twice), kSteps * 60 * kMs + kStep, kPercent);
}

// Each step's six launches stand behind its batch, and the last forward holds backward up.
BOOST_AUTO_TEST_CASE(without_workers_the_host_launches_nothing_meanwhile) {
  const double host = 40 * kMs + 6 * kMs;
  const double last = 40 * kMs + kMs + kStep;
  BOOST_CHECK_CLOSE(end_of(loading(40 * kMs, 0, kMs)), (kSteps - 1) * host + last, kPercent);
}

// With workers it launches once it has the batch, while they make the next one.
BOOST_AUTO_TEST_CASE(with_workers_the_host_waits_for_a_batch) {
  const double last = kMs + kStep;
  BOOST_CHECK_CLOSE(end_of(loading(40 * kMs, 2, kMs)), kSteps * 40 * kMs + last, kPercent);
}

BOOST_AUTO_TEST_CASE(whatever_the_strategy_each_pass_has_its_batch) {
  const std::vector<Strategy> all = {TorchDdp{}, zero_1(), TorchFsdp1{}, TorchFsdp2{},
                                     ParameterServer{}};
  for (const Strategy& strategy : all) {
    const Schedule schedule = schedule_of(strategy, loading(10 * kMs, 4), star_cluster(4));
    std::size_t loads = 0, forwards = 0;
    for (const Program& program : schedule.programs)
      for (const Op& op : program.ops) {
        loads += op.verb == Verb::load ? 1 : 0;
        forwards += op.label() == "forward u1" ? 1 : 0;
      }
    BOOST_TEST(loads == forwards);
    BOOST_TEST(loads > 0U);
  }
}

// Of three stages the first is given a batch.
BOOST_AUTO_TEST_CASE(a_stage_in_the_middle_loads_nothing) {
  Layout layout;
  layout.mesh.pipeline = 3;
  layout.micro_batches = 4;
  const Schedule schedule = schedule_of(layout, loading(kMs, 4), star_cluster(3));
  std::vector<std::size_t> loads;
  for (const Program& program : schedule.programs)
    loads.push_back(
        static_cast<std::size_t>(std::ranges::count(program.ops, Verb::load, &Op::verb)));
  BOOST_TEST(loads == (std::vector<std::size_t>{4, 0, 0}), boost::test_tools::per_element());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
