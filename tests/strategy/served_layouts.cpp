// A parameter server whose workers are replicas over several ranks: stages of a pipeline by a
// closed form, tensor ranks by bytes. P: parameters of all stages; f, b: a stage's passes.
#include <boost/test/unit_test.hpp>

#include "memory/replay.hpp"
#include "model/stages.hpp"
#include "strategy/layouts.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(served_layouts)
namespace {

constexpr double kForward = 2 * kMs, kBackward = 40 * kMs, kRate = 2e9;
constexpr int kWorkers = 2, kMicroBatches = 3;

ParameterServer server_of(std::optional<std::uint32_t> staleness) {
  return {.staleness = staleness, .apply_rate = BytesPerSecond(kRate)};
}

Layout two_stages() {
  Layout layout;
  layout.mesh.pipeline = 2;
  layout.schedule = PipelineSchedule::gpipe;
  layout.micro_batches = kMicroBatches;
  return layout;
}

Cluster without_latency(int workers_nodes) {
  Cluster cluster = server_cluster(workers_nodes);
  for (NodeGroup& group : cluster.groups) group.node.nic_latency = Seconds(0);
  return cluster;
}

/// Ranks whose pulls and pushes count as a worker's.
std::size_t worker_count_of(const Schedule& schedule) {
  return static_cast<std::size_t>(std::ranges::count_if(schedule.ranks, [&](const RankSpec& rank) {
    return std::ranges::count(schedule.programs[rank.program.index()].ops,
                              UpdateRole::read_parameters, &Op::role) > 0;
  }));
}

/// Bytes that ranks push in an iteration.
double pushed(const Schedule& schedule) {
  double sum = 0;
  for (const RankSpec& rank : schedule.ranks)
    for (const Op& op : schedule.programs[rank.program.index()].ops)
      if (op.verb == Verb::push) sum += std::get<Transfer>(op.work).size.value();
  return sum;
}

// All pull at once, and what the last stage pushes is applied while the first one's backward goes
// on.
BOOST_AUTO_TEST_CASE(a_pipeline_s_stages_exchange_their_own_parts) {
  const Toy toy = equal_units(2, {kMiB, kForward, kBackward}, 0);
  const Schedule schedule =
      schedule_of({server_of(0), two_stages()}, toy, without_latency(2 * kWorkers));
  constexpr double kP = 2 * kMiB;
  const double step = kWorkers * kP / kNic + (kMicroBatches + 1) * (kForward + kBackward) +
                      kWorkers * (kP / 2) / kNic + kWorkers * (kP / 2) / kRate;
  BOOST_CHECK_CLOSE(play(schedule, without_latency(2 * kWorkers)).end.value(), step, kPercent);
  BOOST_TEST(schedule.samples_per_iteration == kWorkers * kMicroBatches);
  BOOST_TEST(worker_count_of(schedule) == std::size_t{kWorkers});
}

TransformerShape small() {
  TransformerShape t;
  t.name = "small";
  t.layers = 4;
  t.hidden = 256;
  t.heads = t.kv_heads = 8;
  t.head_width = 32;
  t.feed_forward = 512;
  t.vocabulary = 1024;
  return t;
}

// Every rank pushes what it has, by units or at once, with its own steps in between or without.
BOOST_AUTO_TEST_CASE(tensor_ranks_push_what_they_have) {
  const Cluster cluster = [] {
    Cluster made = nodes_of(2);
    Node server = made.groups.front().node;
    server.gpus = 0;
    made.groups.push_back({"servers", 1, server});
    return made;
  }();
  for (const bool sequences : {false, true})
    for (const auto& staleness : {std::optional<std::uint32_t>(0), std::optional<std::uint32_t>(2),
                                  std::optional<std::uint32_t>()})
      for (const auto& [layerwise, local] :
           {std::pair(false, 1), std::pair(true, 1), std::pair(false, 3)}) {
        Layout layout;
        layout.mesh.tensor = 2;
        layout.mesh.pipeline = 2;
        layout.sequence_parallel = sequences;
        layout.micro_batches = 2;
        ParameterServer server = server_of(staleness);
        server.servers = 3;
        server.layerwise = layerwise;
        server.local_steps = local;
        const Toy toy = share_on(small(), layout, cluster);
        const Schedule schedule = schedule_of({server, layout}, toy, cluster, 3);
        const double shared = 4.0 * static_cast<double>(shared_weight(toy.model));
        const double own = 4.0 * static_cast<double>(toy.model.parameters());
        BOOST_CHECK_CLOSE(pushed(schedule), 2 * 2 * (own + shared), kPercent);
        BOOST_TEST(worker_count_of(schedule) == 2u);
        BOOST_TEST(schedule.samples_per_iteration == 2 * 2 * local);
        const Trace trace = play(schedule, cluster);
        BOOST_TEST(trace.end.value() > 0);
        for (const Program& program : schedule.programs) {
          MemoryReplay replay(program, {.caching = false});
          replay.iterate();
          const double once = replay.use().total().value();
          replay.iterate();
          BOOST_TEST(replay.use().total().value() == once);
        }
      }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
