// What the stages of a pipeline wait for, in closed form.
#include <boost/test/unit_test.hpp>

#include "explain/explanation.hpp"
#include "report/anatomy.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(stages_test)
namespace {

constexpr double kForward = 2 * kMs, kBackward = 4 * kMs;
constexpr int kStages = 4, kMicro = 6;

/// GPipe, whose messages take no time.
struct Gpipe {
  Cluster cluster = star_cluster(kStages);
  Schedule schedule;

  Gpipe() {
    cluster.groups.front().node.nic_latency = Seconds(0);
    Layout layout;
    layout.mesh.pipeline = kStages;
    layout.schedule = PipelineSchedule::gpipe;
    layout.micro_batches = kMicro;
    schedule = schedule_of(layout, equal_units(kStages, {kMiB, kForward, kBackward}, 0), cluster);
  }
};

BOOST_AUTO_TEST_CASE(bubbles_wait_for_what_other_stages_compute) {
  const Gpipe gpipe;
  const Trace trace = play(gpipe.schedule, gpipe.cluster);
  const WaitGraph graph(gpipe.schedule, trace);
  const auto splits = split_ranks(graph, computing_ranks(gpipe.schedule), 0, 1);
  BOOST_REQUIRE(splits.size() == kStages);
  // The last stage waits for the first forward of each before it.
  auto last = splits.back().for_stage;
  for (std::uint32_t stage = 0; stage + 1 < kStages; ++stage)
    BOOST_CHECK_CLOSE(last[stage].value(), kForward, kPercent);
  // The first one waits for the last forwards of the last stage, and for a backward of each, but
  // for its own last forwards.
  auto first = splits.front().for_stage;
  BOOST_CHECK_CLOSE(first[1].value(), kBackward, kPercent);
  BOOST_CHECK_CLOSE(first[2].value(), kBackward, kPercent);
  BOOST_CHECK_CLOSE(first[3].value(), (kStages - 1) * kForward + kBackward, kPercent);
  const std::vector<StageReport> stages = stages_of(gpipe.schedule, trace, 0, 1);
  for (std::size_t stage = 0; stage < kStages; ++stage)
    BOOST_CHECK_CLOSE(stages[stage].bubble().value(), splits[stage].idle.value(), kPercent);
}

BOOST_AUTO_TEST_CASE(causes_are_means_over_stages_the_longest_first) {
  StageFindings pipeline;
  pipeline.waits.resize(2);
  pipeline.waits[0].for_stage[1] = Seconds(0.2);
  pipeline.waits[1].for_stage[0] = Seconds(0.6);
  pipeline.waits[1].for_exchange[MeshAxis::pipeline] = Seconds(0.1);
  const std::vector<NamedTime> causes = bubble_causes(pipeline);
  BOOST_REQUIRE(causes.size() == 3U);
  BOOST_TEST(causes[0].name == "stage 0 computes");
  BOOST_CHECK_CLOSE(causes[0].time.value(), 0.3, kPercent);
  BOOST_TEST(causes[1].name == "stage 1 computes");
  BOOST_TEST(causes[2].name == "messages between stages");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
