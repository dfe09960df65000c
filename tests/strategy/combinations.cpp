// Every strategy with every combination of its options: a valid schedule that ends, at each
// fidelity.
#include <boost/test/unit_test.hpp>

#include "strategy/every_strategy.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(combinations_test)
namespace {

/// Unlike units: one without parameters, one whose parameters do not divide by the ranks.
Toy odd_units() {
  return toy({{0, kMs, 2 * kMs, 1e6},
              {kMiB, 2 * kMs, 3 * kMs, 3e6},
              {4 * 250'001, kMs, kMs, 2e6},
              {3 * kMiB, kMs, kMs, 0}},
             2 * kMs);
}

constexpr std::uint32_t kIterations = 2;

void check_ends(const std::vector<NamedStrategy>& strategies, const Cluster& cluster) {
  const Toy model = odd_units();
  for (const auto& [name, strategy] : strategies) {
    const Schedule schedule = schedule_of(strategy, model, cluster, kIterations);
    for (const Fidelity fidelity : {Fidelity::hop, Fidelity::flow}) {
      BOOST_TEST_CONTEXT(name << ", " << fidelity) {
        Trace trace;
        BOOST_REQUIRE_NO_THROW(trace = play(schedule, cluster, fidelity));
        BOOST_TEST(trace.end.value() > 0);
        for (std::size_t rank = 0; rank < cluster.gpu_count(); ++rank)
          BOOST_TEST(trace.iteration_end[rank][0].value() < trace.iteration_end[rank][1].value());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_iteration_has_the_samples_of_all_whose_gradients_count) {
  const Cluster cluster = star_cluster(4, 2);
  const Toy model = odd_units();
  const auto batches = [&](const Strategy& strategy) {
    const Job job = job_of(model, cluster);
    return build_schedule(strategy, job).samples_per_iteration /
           static_cast<double>(job.batch_per_gpu);
  };
  ParameterServer server{.staleness = 0, .backup_workers = 1};
  BOOST_TEST(batches(TorchDdp{.gradient_accumulation = 3}) == 8 * 3);
  BOOST_TEST(batches(TorchFsdp1{}) == 8);
  BOOST_TEST(batches(LocalSgd{.period = 5}) == 8 * 5);
  BOOST_TEST(batches(server) == 7);
  server.aggregate = ParameterServer::Aggregate::node;  // three nodes of two GPUs count
  BOOST_TEST(batches(server) == 6);
  server = {.staleness = 0, .local_steps = 4, .sampled_workers = 3};
  BOOST_TEST(batches(server) == 3 * 4);
}

BOOST_AUTO_TEST_CASE(every_replicated_strategy_ends) {
  check_ends(every_replicated(), star_cluster(2, 2));
  check_ends(every_local_sgd(), star_cluster(2, 2));
}
BOOST_AUTO_TEST_CASE(every_sharded_strategy_ends) { check_ends(every_fsdp(), star_cluster(2, 2)); }
BOOST_AUTO_TEST_CASE(every_parameter_server_on_the_workers_nodes_ends) {
  check_ends(every_parameter_server(), star_cluster(2, 2));
}
BOOST_AUTO_TEST_CASE(every_parameter_server_on_nodes_of_its_own_ends) {
  Cluster cluster = star_cluster(2, 2);
  Node server = cluster.groups[0].node;
  server.gpus = 0;
  cluster.groups.push_back({"servers", 2, server});
  check_ends(every_parameter_server(), cluster);
}

BOOST_AUTO_TEST_CASE(folded_takes_as_long_as_flow) {
  const Cluster cluster = star_cluster(4, 2);
  const Toy model = odd_units();
  std::size_t folded_ones = 0;
  for (const auto& [name, strategy] : every_strategy()) {
    const Schedule schedule = schedule_of(strategy, model, cluster, kIterations);
    std::string why_not;
    const auto folded = fold(schedule, cluster, why_not);
    if (!folded) continue;
    ++folded_ones;
    BOOST_TEST(folded->schedule.ranks.size() == 4U);
    BOOST_TEST_CONTEXT(name) {
      BOOST_CHECK_CLOSE(play(folded->schedule, folded->cluster).end.value(),
                        play(schedule, cluster).end.value(), kPercent);
    }
  }
  // All of FSDP1, all of DDP, ZeRO-1 and local SGD but the direct algorithm: 3 x 3 x 3 x 8 + 2 x 4
  // x 3 x 2 x 2 + 4 x 2, FSDP2's and ZeRO-3's 8 each, DiLoCo's 5 x 2, DeepSpeed's stages 1 and 2: 2
  // x 2 + 2 x 4, it without ZeRO, and Horovod's 8.
  BOOST_TEST(folded_ones == 216U + 2 * 8U + 96U + 8U + 10U + 12U + 1U + 8U);
}

BOOST_AUTO_TEST_CASE(a_cluster_without_gpus_is_an_input_error_for_every_strategy) {
  Cluster cluster = star_cluster(2);
  cluster.groups[0].node.gpus = 0;
  const Toy model = odd_units();
  for (const auto& [name, strategy] : every_strategy()) {
    const Strategy& the_strategy = strategy;
    BOOST_CHECK_EXCEPTION(build_schedule(the_strategy, job_of(model, cluster)), InputError,
                          [](const InputError& error) {
                            return error.what() ==
                                   std::string(
                                       "error: cluster: no node has a GPU, so nothing can train\n"
                                       "remedy: set `gpus` of a node to 1 or more");
                          });
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
