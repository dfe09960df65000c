// What changes of a run are worth, in closed form.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "explain/cause.hpp"
#include "explain/changes.hpp"
#include "explain/critical_path.hpp"
#include "explain/link_costs.hpp"
#include "explain/path_shares.hpp"
#include "explain/rank_split.hpp"
#include "explain/resource.hpp"
#include "report/anatomy.hpp"
#include "strategy/every_strategy.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(what_if_test)
namespace {

constexpr std::uint32_t kSteps = 6;

/// Two units on four one-GPU nodes whose network bounds the step: head's 40 MB, ready after 4 ms of
/// backward, then stem's 4 MB.
constexpr double kStem = 4e6, kHead = 4e7;
constexpr double kForward = 3e-3, kHeadBackward = 4e-3, kStemBackward = 2e-3, kOptimizer = 1e-3;

Machine two_units() {
  const Toy made = toy({{kStem, 1e-3, kStemBackward}, {kHead, 2e-3, kHeadBackward}}, kOptimizer);
  const Cluster cluster = star_cluster(4);
  return {.schedule = schedule_of(TorchDdp{.bucket_cap_mb = 25}, made, cluster, kSteps),
          .cluster = cluster};
}

double reduced(double size) { return all_reduce_time(4, size); }

/// Of the last iteration.
double step(const Machine& machine) {
  const Trace trace = play(machine);
  const auto& ends = trace.iteration_end[0];
  return (ends[kSteps - 1] - ends[kSteps - 2]).value();
}

template <class Change>
double changed_step(Machine machine, Change change) {
  change(machine);
  validate(machine.schedule);
  return step(machine);
}

double bound_step() {
  return kForward + kHeadBackward + reduced(kHead) + reduced(kStem) + kOptimizer;
}

BOOST_AUTO_TEST_CASE(a_faster_nic_saves_its_share_of_a_network_bound_step) {
  // 2 (n - 1) / n of the bytes cross each NIC; the latencies stay.
  const double wire = 2 * 3 / 4.0 * (kHead + kStem) / kNic;
  const double now = step(two_units());
  BOOST_CHECK_CLOSE(now, bound_step(), kPercent);
  const double then =
      changed_step(two_units(), [](Machine& machine) { speed_up(Resource::nic, 1.1, machine); });
  BOOST_CHECK_CLOSE(now - then, wire * (1 - 1 / 1.1), 1e-6);
}

BOOST_AUTO_TEST_CASE(less_latency_saves_its_share_of_every_ring_step) {
  const double then = changed_step(
      two_units(), [](Machine& machine) { speed_up(Resource::latency, 1.25, machine); });
  BOOST_CHECK_CLOSE(step(two_units()) - then, 12 * kNicLatency * (1 - 1 / 1.25), 1e-6);
}

BOOST_AUTO_TEST_CASE(faster_gpus_save_only_what_the_network_waits_for) {
  const double then =
      changed_step(two_units(), [](Machine& machine) { speed_up(Resource::gpu, 2, machine); });
  BOOST_CHECK_CLOSE(step(two_units()) - then, (kForward + kHeadBackward + kOptimizer) / 2, 1e-6);
}

BOOST_AUTO_TEST_CASE(without_a_network_a_step_is_its_computation) {
  const double then =
      changed_step(two_units(), [](Machine& machine) { remove(Cause::network, machine); });
  BOOST_CHECK_CLOSE(then, kForward + kHeadBackward + kStemBackward + kOptimizer, kPercent);
}

BOOST_AUTO_TEST_CASE(with_perfect_overlap_a_step_is_the_busier_of_compute_and_network) {
  const auto hide = [](Machine& machine) { remove(Cause::overlap, machine); };
  BOOST_CHECK_CLOSE(changed_step(two_units(), hide), reduced(kHead) + reduced(kStem), kPercent);
  const auto fast_and_hide = [&](Machine& machine) {
    speed_up(Resource::nic, 20, machine);
    hide(machine);
  };
  BOOST_CHECK_CLOSE(changed_step(two_units(), fast_and_hide),
                    kForward + kHeadBackward + kStemBackward + kOptimizer, kPercent);
}

BOOST_AUTO_TEST_CASE(without_its_all_reduces_a_step_is_its_computation) {
  const double then =
      changed_step(two_units(), [](Machine& machine) { remove_operations("all_reduce", machine); });
  BOOST_CHECK_CLOSE(then, kForward + kHeadBackward + kStemBackward + kOptimizer, kPercent);
}

Machine with_straggler() {
  Machine machine = two_units();
  machine.schedule.ranks[2].slowdown = 1.5;
  machine.schedule.ranks[3].delay = Seconds(1e-4);
  return machine;
}

BOOST_AUTO_TEST_CASE(slow_ranks_are_found_the_slowest_first) {
  const std::vector<RankId> slow = slow_ranks(with_straggler().schedule, 4);
  BOOST_REQUIRE_EQUAL(slow.size(), 2);
  BOOST_CHECK(slow[0] == RankId(2));
  BOOST_CHECK(slow[1] == RankId(3));
  BOOST_CHECK_EQUAL(slow_ranks(with_straggler().schedule, 1).size(), 1);
}

BOOST_AUTO_TEST_CASE(a_step_without_its_straggler_is_the_step_of_equal_ranks) {
  // The straggler's 1.5 times as slow forward, backward of head and optimizer are on the path.
  const double slow = step(with_straggler());
  BOOST_CHECK_CLOSE(slow - bound_step(), 0.5 * (kForward + kHeadBackward + kOptimizer), 1e-6);
  BOOST_CHECK_CLOSE(
      changed_step(with_straggler(), [](Machine& machine) { make_median(RankId(2), machine); }),
      bound_step() + 1e-4, kPercent);
  BOOST_CHECK_CLOSE(
      changed_step(with_straggler(), [](Machine& machine) { remove(Cause::unequal, machine); }),
      bound_step(), kPercent);
}

BOOST_AUTO_TEST_CASE(a_path_blames_the_straggler_for_what_it_is_slower) {
  const Machine machine = with_straggler();
  const Trace trace = play(machine.schedule, machine.cluster);
  const WaitGraph graph(machine.schedule, trace);
  const StepWindow window = step_window(graph, computing_ranks(machine.schedule), true, 1, kSteps);
  LinkCosts links(machine);
  const PathShares shares = shares_of(
      machine.schedule,
      pieces_of(machine.schedule, path_back(graph, window.last_span, window.end, window.begin)),
      kSteps - 1, links);
  const auto of = [&](PathKind kind) {
    return shares.by_kind[static_cast<std::size_t>(kind)].value();
  };
  BOOST_CHECK_CLOSE(of(PathKind::straggler), 0.5 * (kForward + kHeadBackward + kOptimizer), 1e-6);
  BOOST_CHECK_CLOSE(of(PathKind::compute), kForward + kHeadBackward + kOptimizer, 1e-6);
  BOOST_CHECK_CLOSE(of(PathKind::collective), reduced(kHead) + reduced(kStem), 1e-6);
  BOOST_CHECK(shares.by_rank.front().first == RankId(2));
  BOOST_REQUIRE_EQUAL(shares.by_link.size(), 1);
  BOOST_CHECK_EQUAL(shares.by_link[0].link, "NIC");
  BOOST_CHECK_EQUAL(shares.by_link[0].where, "every node");
  BOOST_CHECK_CLOSE(shares.by_link[0].latency.value(), 12 * kNicLatency, 1e-6);
  BOOST_CHECK_SMALL(shares.by_link[0].contention.value(), 1e-12);
}

BOOST_AUTO_TEST_CASE(ranks_wait_for_the_straggler_and_it_for_nobody) {
  const Machine machine = with_straggler();
  const Trace trace = play(machine.schedule, machine.cluster);
  const WaitGraph graph(machine.schedule, trace);
  const std::vector<RankSplit> splits =
      split_ranks(graph, computing_ranks(machine.schedule), 1, kSteps);
  // Others reach head's all_reduce, and stem's after it, that much earlier.
  const double ahead = 0.5 * (kForward + kHeadBackward);
  BOOST_CHECK_CLOSE(splits[0].compute.value(),
                    kForward + kHeadBackward + kStemBackward + kOptimizer, 1e-6);
  BOOST_CHECK_CLOSE(splits[0].peer.value() + splits[0].exposed_communication.value(),
                    bound_step() + ahead + 0.5 * kOptimizer - splits[0].compute.value(), 1e-6);
  BOOST_CHECK_GT(splits[0].peer.value(), ahead - kStemBackward);
  BOOST_CHECK_SMALL(splits[2].peer.value(), 1e-12);
  BOOST_CHECK_SMALL(splits[0].server.value(), 1e-12);
  // It also begins its step before the straggler does, whose optimizer ran longer.
  BOOST_CHECK_CLOSE(splits[0].slack.value(), ahead + 0.5 * kOptimizer, 1e-6);
  BOOST_CHECK_SMALL(splits[2].slack.value(), 1e-12);
}

/// Every eleventh strategy, on a cluster that suits all.
std::vector<NamedStrategy> some_strategies() {
  std::vector<NamedStrategy> some;
  const std::vector<NamedStrategy> all = every_strategy();
  for (std::size_t i = 0; i < all.size(); i += 11) some.push_back(all[i]);
  return some;
}

Machine machine_of(const Strategy& strategy) {
  Toy made = equal_units(4, {4e6, 1e-3, 2e-3}, 5e-4);
  for (UnitCost& unit : made.costs.units)
    unit.forward_launch = unit.backward_launch = Seconds(3e-4);
  Cluster cluster = star_cluster(2, 2);
  Node server = cluster.groups.front().node;
  server.gpus = 0;
  server.nvlink.reset();
  cluster.groups.push_back({"servers", 1, server});
  if (server_in(strategy) == nullptr) cluster.groups.pop_back();
  Machine machine{.schedule = schedule_of(strategy, made, cluster, kSteps), .cluster = cluster};
  machine.schedule.ranks[1].slowdown = 1.2;
  machine.schedule.ranks[2].delay = Seconds(2e-4);
  machine.schedule.jitter = {Jitter::Distribution::lognormal, 0.1};
  return machine;
}

BOOST_AUTO_TEST_CASE(with_everything_faster_every_step_is_as_much_faster) {
  for (const NamedStrategy& one : some_strategies()) {
    Machine machine = machine_of(one.strategy);
    const Trace now = play(machine.schedule, machine.cluster);
    for (const Resource resource : {Resource::gpu, Resource::nvlink, Resource::pcie, Resource::nic,
                                    Resource::fabric, Resource::latency, Resource::server,
                                    Resource::host, Resource::sockets, Resource::straggling})
      speed_up(resource, 1.1, machine);
    const Trace then = play(machine.schedule, machine.cluster);
    for (std::size_t r = 0; r < machine.schedule.ranks.size(); ++r)
      BOOST_CHECK_CLOSE(now.iteration_end[r].back().value(),
                        1.1 * then.iteration_end[r].back().value(), kPercent);
  }
}

BOOST_AUTO_TEST_CASE(loading_a_batch_is_no_launch_of_the_host) {
  Toy made = equal_units(3, {kMiB, 2 * kMs, 5 * kMs}, 3 * kMs);
  made.costs.loading = BatchLoading{.each = Seconds(40 * kMs), .ahead = 4};
  const Cluster cluster = star_cluster(1);
  Machine machine{.schedule = schedule_of(TorchDdp{}, made, cluster, 3), .cluster = cluster};
  const std::vector<Cause> causes = causes_of(machine);
  BOOST_TEST(std::ranges::count(causes, Cause::loading) == 1);
  BOOST_TEST(std::ranges::count(causes, Cause::host) == 0);
  speed_up(Resource::host, 4, machine);
  speed_up(Resource::loading, 4, machine);
  const double end = play(machine.schedule, cluster).end.value();
  BOOST_CHECK_CLOSE(end, (10 + 3 * 24) * kMs, kPercent);
}

BOOST_AUTO_TEST_CASE(jitter_is_what_a_spread_that_is_given_scales_and_not_one_that_was_measured) {
  Machine machine = machine_of(TorchDdp{.bucket_cap_mb = 2});
  for (const auto distribution :
       {Jitter::Distribution::lognormal, Jitter::Distribution::exponential}) {
    machine.schedule.jitter = {distribution, 0.5};
    BOOST_TEST(std::ranges::count(resources_of(machine, {}), Resource::jitter) == 1);
    speed_up(Resource::jitter, 1.25, machine);
    BOOST_CHECK_CLOSE(machine.schedule.jitter.cv, 0.4, kPercent);
  }
  machine.schedule.jitter = {.distribution = Jitter::Distribution::measured};
  BOOST_TEST(std::ranges::count(resources_of(machine, {}), Resource::jitter) == 0);
}

/// All_reduces of a curve with this latency, measured on the machine's own links.
Machine calibrated_machine(double latency) {
  Machine machine = machine_of(TorchDdp{.bucket_cap_mb = 2});
  CommProfile profile;
  for (const int nodes : {1, 2})
    profile.curves.push_back({.kind = CollectiveKind::all_reduce,
                              .ranks = 4,
                              .nodes = nodes,
                              .segments = {{Seconds(latency), BytesPerSecond(7e8)}},
                              .smallest = Bytes(1),
                              .largest = Bytes(1e9)});
  profile.links = links_of(machine.cluster);
  machine.comm = profile;
  return machine;
}

// What a collective costs before its first step is no link's, nor what NCCL itself takes.
BOOST_AUTO_TEST_CASE(with_everything_faster_calibrated_collectives_are_as_much_faster) {
  for (const double latency : {0.0, 2e-5}) {
    Machine machine = calibrated_machine(latency);
    const double now = step(machine);
    for (const Resource resource : {Resource::gpu, Resource::nvlink, Resource::nic,
                                    Resource::latency, Resource::host, Resource::straggling})
      speed_up(resource, 1.1, machine);
    const double then = step(machine);
    if (latency == 0) BOOST_CHECK_CLOSE(now, 1.1 * then, 0.1);
    BOOST_TEST(now > then);
    BOOST_TEST(now <= 1.1 * then * (1 + 1e-9));
  }
}

BOOST_AUTO_TEST_CASE(every_change_leaves_a_schedule_that_runs_and_no_slower) {
  for (const NamedStrategy& one : some_strategies()) {
    const Machine machine = machine_of(one.strategy);
    const std::vector<Cause> causes = causes_of(machine);
    BOOST_CHECK_GE(causes.size(), 4);
    Machine ideal = machine;
    for (const Cause cause : causes) remove(cause, ideal);
    BOOST_CHECK_NO_THROW(validate(ideal.schedule));
    const double now = play(machine.schedule, machine.cluster).end.value();
    BOOST_CHECK_MESSAGE(play(ideal.schedule, ideal.cluster).end.value() < now, one.name);
    for (const std::string& name : operation_classes(machine.schedule)) {
      Machine without = machine;
      remove_operations(name, without);
      BOOST_CHECK_NO_THROW(validate(without.schedule));
    }
  }
}

BOOST_AUTO_TEST_CASE(splits_and_paths_of_every_strategy_add_up) {
  for (const NamedStrategy& one : some_strategies()) {
    const Machine machine = machine_of(one.strategy);
    const Trace trace = play(machine.schedule, machine.cluster);
    const WaitGraph graph(machine.schedule, trace);
    const std::vector<RankId> workers = computing_ranks(machine.schedule);
    for (const bool in_step : {true, false}) {
      const StepWindow window = step_window(graph, workers, in_step, 2, kSteps);
      Seconds sum;
      for (const PathPiece& piece : pieces_of(
               machine.schedule, path_back(graph, window.last_span, window.end, window.begin)))
        sum += piece.duration;
      BOOST_CHECK_CLOSE(sum.value(), (window.end - window.begin).value(), kPercent);
    }
    for (const RankSplit& split : split_ranks(graph, workers, 2, kSteps)) {
      const double step = split.step.value();
      BOOST_CHECK_CLOSE((split.compute + split.exposed_communication + split.idle).value(), step,
                        kPercent);
      BOOST_CHECK_SMALL((split.host + split.peer + split.server - split.idle).value(), 1e-9 * step);
    }
  }
}

BOOST_AUTO_TEST_CASE(copies_either_way_are_one_class_and_packing_is_another) {
  const auto class_of = [](Verb verb) {
    return operation_class({.verb = verb,
                            .of = "layer3",
                            .phase = Phase::host,
                            .work = Compute{.duration = Seconds(1)}});
  };
  BOOST_TEST(class_of(Verb::copy_to_gpu) == "copy");
  BOOST_TEST(class_of(Verb::copy_to_host) == "copy");
  BOOST_TEST(class_of(Verb::pack) == "pack");
  BOOST_TEST(class_of(Verb::launch) == "launches");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
