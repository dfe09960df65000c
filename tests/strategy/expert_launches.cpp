// The host launches experts once it knows how many tokens they get.
#include <boost/test/unit_test.hpp>

#include "strategy/layouts.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(expert_launches_test)
namespace {

constexpr int kBlocks = 2;

Layout four_ranks() {
  Layout layout;
  layout.mesh.expert = 4;
  return layout;
}

/// Each block's experts take the host so long.
double step_with(double awaited) {
  const Cluster cluster = nodes_of(4, 1);
  Toy toy = share_on(mixture(kBlocks), four_ranks(), cluster);
  for (std::size_t i = 0; i < toy.model.units.size(); ++i)
    if (!toy.model.units[i].exchanges.empty())
      toy.costs.units[i].forward_launch = toy.costs.units[i].awaited_launch = Seconds(awaited);
  const Schedule schedule = schedule_of({kRingMegatron, four_ranks()}, toy, cluster);
  validate(schedule);
  return play(schedule, cluster).end.value();
}

// In a second micro-batch tokens and their computation are long there when the last is launched.
BOOST_AUTO_TEST_CASE(each_block_waits_for_launches_that_its_counts_allow) {
  BOOST_CHECK_CLOSE(step_with(2) - step_with(1), kBlocks * 1.0, kPercent);
}

BOOST_AUTO_TEST_CASE(launches_hide_behind_the_tokens_way) {
  BOOST_CHECK_CLOSE(step_with(1e-9), step_with(0), kPercent);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
