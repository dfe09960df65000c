// DiLoCo against closed forms: a period is its inner steps, and what is exposed of its outer ones.
// E: bytes of the parameters that a rank exchanges; t: an inner step of a replica alone.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/list_scheduler.hpp"
#include "memory/memory.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {

BOOST_AUTO_TEST_SUITE(diloco_test)
namespace {

namespace data = boost::unit_test::data;
using Compression = OuterCompression;

constexpr double kP = 24 * kMiB, kCopyRate = 1e12;
constexpr auto kRing = CollectiveAlgorithm::ring;

Toy two_units() {
  Toy made = toy({{kP / 2, 3 * kMs, 6 * kMs, 1e6}, {kP / 2, 4 * kMs, 7 * kMs, 1e6}}, 1.5 * kMs);
  made.costs.copy_rate = BytesPerSecond(kCopyRate);
  return made;
}

LocalSgd diloco(int period, int replicas = 0) {
  return {.period = period, .algorithm = kRing, .replicas = replicas, .outer = OuterSgd{}};
}

/// Reads two, writes one; compressed, reads the difference and writes `wire` bytes an element.
double send_time(double bytes, double wire = 0) {
  return (3 * bytes + (wire > 0 ? bytes + bytes / 4 * wire : 0)) / kCopyRate;
}
/// PyTorch's foreach SGD with momentum, Nesterov's kernel, and the copy into the parameters.
double apply_time(double bytes, double wire = 0) {
  const Optimizer sgd{.kind = OptimizerKind::sgd_momentum};
  const double moved = optimizer_bytes_per_parameter(sgd).value() / 4 + 3 + 2;
  return (moved * bytes + (wire > 0 ? bytes + bytes / 4 * wire : 0)) / kCopyRate;
}

/// From one iteration to the next, once the first is over.
double steady(const Trace& trace) {
  return (trace.iteration_end[0].back() - trace.iteration_end[0].front()).value() /
         static_cast<double>(trace.iteration_end[0].size() - 1);
}

struct NamedSync {
  std::string name;
  Strategy::Kind sync;
  bool is_sharded = false;  ///< a rank holds its share alone
};

std::vector<NamedSync> inner_strategies() {
  const TorchDdp ddp{.bucket_cap_mb = 8, .algorithm = kRing};
  return {{"ddp", ddp}, {"zero 1", zero_1(ddp)}, {"fsdp", TorchFsdp1{.algorithm = kRing}, true}};
}

BOOST_DATA_TEST_CASE(a_period_is_its_inner_steps_and_the_outer_one,
                     data::make({1, 2, 7}) * data::make({2, 3}) * data::make({1, 3}), period,
                     replicas, nodes) {
  for (const auto& [name, sync, is_sharded] : inner_strategies()) {
    const Strategy options{sync, {}, diloco(period, replicas)};
    const double step = steady(trace_of(sync, two_units(), star_cluster(nodes), 3));
    const double own = kP / nodes;
    const double gathered = is_sharded ? 0 : all_gather_time(nodes, kP);
    const double outer =
        send_time(own) + all_reduce_time(replicas, own) + apply_time(own) + gathered;
    const Trace trace = trace_of(options, two_units(), star_cluster(replicas * nodes), 3);
    BOOST_TEST_CONTEXT(name)
    BOOST_CHECK_CLOSE(steady(trace), period * step + outer, kPercent);
  }
}

// ---- A replica that is a mesh ----

/// Messages of no size take no time.
Cluster free_network(int nodes) {
  Cluster cluster = star_cluster(nodes);
  cluster.groups.front().node.nic_latency = Seconds(0);
  return cluster;
}
double ring_time(int ranks, double bytes) { return 2.0 * (ranks - 1) / ranks * bytes / kNic; }

BOOST_DATA_TEST_CASE(a_replica_in_stages_exchanges_each_stage_on_its_own,
                     data::make({1, 3}) * data::make({2, 3}) * data::make({2, 4}) *
                         data::make({1, 2}),
                     period, replicas, stages, data_parallel) {
  constexpr double kStage = 8 * kMiB;
  Toy made = equal_units(static_cast<std::size_t>(stages), {kStage, 2 * kMs, 4 * kMs}, 3 * kMs);
  made.costs.copy_rate = BytesPerSecond(kCopyRate);
  Layout inner;
  inner.mesh.pipeline = stages;
  inner.micro_batches = stages;
  const Strategy options{kRingMegatron, inner, diloco(period, replicas)};
  const int each = stages * data_parallel;
  const double step = steady(trace_of({kRingMegatron, inner}, made, free_network(each), 3));
  const double own = kStage / data_parallel;
  const double gathered = data_parallel == 1 ? 0 : ring_time(data_parallel, kStage) / 2;
  const double outer = send_time(own) + ring_time(replicas, own) + apply_time(own) + gathered;
  const Schedule schedule = schedule_of(options, made, free_network(replicas * each), 3);
  BOOST_TEST(schedule.samples_per_iteration == period * replicas * data_parallel * stages);
  const Trace trace = play(schedule, free_network(replicas * each));
  BOOST_CHECK_CLOSE(steady(trace), period * step + outer, kPercent);
}

BOOST_DATA_TEST_CASE(compression_says_what_travels_and_costs_its_own_passes,
                     data::make({Compression::bf16, Compression::int8, Compression::int4}) ^
                         data::make({2.0, 1.0, 0.5}),
                     compression, wire) {
  LocalSgd options = diloco(3);
  options.compression = compression;
  const Schedule schedule = schedule_of(options, two_units(), star_cluster(4));
  const auto sizes = sizes_of(schedule.programs[0], CollectiveKind::all_reduce);
  BOOST_REQUIRE(sizes.size() == 1U);
  BOOST_TEST(sizes[0] == kP / 4 * wire);
  const double expected = 3 * 21.5 * kMs + send_time(kP, wire) + all_reduce_time(4, kP / 4 * wire) +
                          apply_time(kP, wire);
  BOOST_CHECK_CLOSE(steady(trace_of(options, two_units(), star_cluster(4), 3)), expected, kPercent);
}

// ---- Fragments ----

// A fragment travels beside `overlap` steps of 21.5 ms; what is left of its exchange is exposed.
BOOST_DATA_TEST_CASE(a_fragment_exposes_what_its_steps_do_not_hide,
                     data::make({1, 2, 3}) * data::make({1, 2, 3}) * data::make({2, 5}), fragments,
                     overlap, replicas) {
  constexpr int kPeriod = 12;
  LocalSgd options = diloco(kPeriod);
  options.fragments = fragments;
  options.overlap_steps = overlap;
  const double own = kP / fragments, step = 21.5 * kMs;
  const double exposed = std::max(0.0, all_reduce_time(replicas, own) - overlap * step);
  const double expected = kPeriod * step + fragments * (send_time(own) + apply_time(own) + exposed);
  BOOST_CHECK_CLOSE(steady(trace_of(options, two_units(), star_cluster(replicas), 3)), expected,
                    kPercent);
}

BOOST_AUTO_TEST_CASE(without_overlap_fragments_wait_one_by_one) {
  LocalSgd options = diloco(6);
  options.fragments = 3;
  const double own = kP / 3;
  const double expected =
      6 * 21.5 * kMs + 3 * (send_time(own) + all_reduce_time(4, own) + apply_time(own));
  BOOST_CHECK_CLOSE(steady(trace_of(options, two_units(), star_cluster(4), 3)), expected, kPercent);
}

BOOST_AUTO_TEST_CASE(fragments_have_their_turns_evenly_over_the_period) {
  LocalSgd options = diloco(10);
  options.fragments = 4;
  options.overlap_steps = 3;
  const Schedule schedule = schedule_of(options, two_units(), star_cluster(2));
  const Program& program = schedule.programs[0];
  std::vector<int> sent, applied;
  int step = -1;
  for (const Op& op : program.ops) {
    if (op.label() == "optimizer") ++step;
    if (op.label().starts_with("all_reduce")) sent.push_back(step);
    if (op.label().starts_with("outer optimizer")) applied.push_back(step);
  }
  BOOST_TEST(sent == (std::vector<int>{1, 4, 6, 9}), boost::test_tools::per_element());
  BOOST_TEST(applied == (std::vector<int>{2, 4, 7, 9}), boost::test_tools::per_element());
}

// ---- The list scheduler ----

BOOST_AUTO_TEST_CASE(periods_take_what_a_list_scheduler_says) {
  std::vector<std::pair<Strategy, int>> all;
  for (const auto& one : inner_strategies())
    all.emplace_back(Strategy{one.sync, {}, diloco(3, 2)}, 4);
  for (const int fragments : {1, 2, 5})
    for (const int overlap : {0, 1, 4}) {
      LocalSgd options = diloco(5);
      options.fragments = fragments;
      options.overlap_steps = overlap;
      all.emplace_back(options, 3);
    }
  for (const auto& [options, nodes] : all) {
    const Cluster cluster = star_cluster(nodes);
    const Schedule schedule = schedule_of(options, two_units(), cluster, 3);
    const Timetable expected = list_schedule(schedule, cluster);
    const Trace trace = play(schedule, cluster);
    for (const Span& span : trace.spans) {
      const When& when = expected[span.rank.index()][span.op.index()][span.iteration];
      BOOST_CHECK_CLOSE(span.end.value(), when.end, kPercent);
    }
  }
}

// ---- Sites ----

Cluster sites_cluster(int sites, int nodes, int gpus) {
  Cluster cluster = star_cluster(sites * nodes, gpus, gpus);
  cluster.fabric =
      Sites{.nodes = nodes, .bandwidth = BytesPerSecond(2e8), .latency = Seconds(0.01)};
  return cluster;
}

BOOST_DATA_TEST_CASE(all_ranks_of_a_site_share_its_link, data::make({2, 3}) * data::make({1, 4}),
                     sites, nodes) {
  const Strategy options{TorchFsdp1{.algorithm = kRing}, {}, diloco(2)};
  const Cluster cluster = sites_cluster(sites, nodes, 2);
  const Toy model = two_units();
  const double step =
      steady(trace_of(TorchFsdp1{.algorithm = kRing}, model, star_cluster(nodes, 2, 2), 3));
  const double own = kP / (2.0 * nodes);
  const double exchange =
      2.0 * (sites - 1) / sites * kP / 2e8 + 2 * (sites - 1) * (0.01 + kNicLatency);
  const Schedule schedule = schedule_of(options, model, cluster, 3);
  BOOST_TEST(schedule.replicas == static_cast<std::size_t>(sites));
  BOOST_CHECK_CLOSE(steady(play(schedule, cluster)),
                    2 * step + send_time(own) + exchange + apply_time(own), kPercent);
}

BOOST_DATA_TEST_CASE(folded_sites_take_what_all_of_them_do,
                     data::make({2, 3, 5}) * data::make({3, 4}), sites, nodes) {
  for (const bool slow : {false, true})
    for (const auto& one : inner_strategies())
      for (const int overlap : {0, 2}) {
        Cluster cluster = sites_cluster(sites, nodes, 2);
        if (!slow) cluster.fabric = Star{};
        Strategy options{one.sync, {}, diloco(4, sites)};
        options.local_sgd->overlap_steps = overlap;
        const Schedule schedule = schedule_of(options, two_units(), cluster, 3);
        std::string why_not;
        const auto folded = fold(schedule, cluster, why_not);
        BOOST_REQUIRE_MESSAGE(folded, why_not);
        BOOST_TEST(folded->cluster.node_count() == 4U);
        BOOST_TEST_CONTEXT(one.name << ", slow " << slow << ", overlap " << overlap)
        BOOST_CHECK_CLOSE(play(folded->schedule, folded->cluster).end.value(),
                          play(schedule, cluster).end.value(), kPercent);
      }
}

BOOST_AUTO_TEST_CASE(replicas_that_are_no_sites_do_not_fold) {
  const Cluster cluster = sites_cluster(2, 4, 2);
  const Strategy options{kRingDdp, {}, diloco(2, 4)};
  std::string why_not;
  BOOST_TEST(!fold(schedule_of(options, two_units(), cluster), cluster, why_not));
  BOOST_TEST(why_not == "replicas are no sites");
}

// ---- Memory ----

/// Bytes of a kind between two iterations.
double resident(const Strategy& options, const Cluster& cluster, MemoryKind kind) {
  const Schedule schedule = schedule_of(options, two_units(), cluster);
  MemoryReplay replay(schedule.programs[0], {.caching = false});
  replay.iterate();
  replay.iterate();
  return replay.use().by_kind[static_cast<std::size_t>(kind)].value();
}

BOOST_AUTO_TEST_CASE(a_rank_keeps_the_outer_state_of_its_share) {
  for (const auto& one : inner_strategies()) {
    Strategy options{one.sync, {}, diloco(4, 2)};
    const bool whole = one.name == "ddp";
    const double adam = (whole ? 2 : 0.5) * kP;  // two states, of 1/4 where it is sharded
    const auto kept = [&] {
      return resident(options, star_cluster(8), MemoryKind::optimizer_state);
    };
    BOOST_TEST_CONTEXT(one.name) {
      BOOST_TEST(kept() == adam + 2 * kP / 4);
      options.local_sgd->outer->momentum = 0;
      BOOST_TEST(kept() == adam + kP / 4);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_fragment_on_its_way_is_kept) {
  LocalSgd options = diloco(4);
  options.fragments = 2;
  BOOST_TEST(resident(options, star_cluster(2), MemoryKind::communication) == 0);
  options.overlap_steps = 1;  // the second is sent behind the last step
  BOOST_TEST(resident(options, star_cluster(2), MemoryKind::communication) == kP / 2);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
