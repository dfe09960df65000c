// A parameter server with an outer optimizer: asynchronous DiLoCo. P: bytes of parameters; C: a
// step's forward and backward; O: the inner optimizer's step. Adam in fp32: two states of 4 bytes.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/list_scheduler.hpp"
#include "memory/memory.hpp"
#include "predict/server_updates.hpp"
#include "report/report.hpp"
#include "report/update_log.hpp"
#include "strategy/jobs.hpp"
#include "strategy/server/server_host.hpp"

namespace rehearse {

BOOST_AUTO_TEST_SUITE(outer_server_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kP = 4 * kMiB, kC = 20 * kMs, kO = 1.5 * kMs, kCopyRate = 1e12;
/// Four threads of 18 GB/s (server_host.hpp).
constexpr double kTraffic = 4 * 18e9;

Toy two_units() {
  Toy made = toy({{kP / 2, 3 * kMs, 6 * kMs}, {kP / 2, 4 * kMs, 7 * kMs}}, kO);
  made.costs.copy_rate = BytesPerSecond(kCopyRate);
  return made;
}
double way(double load, double bytes = kP) { return kNicLatency + load * bytes / kNic; }

ParameterServer outer_server(std::optional<std::uint32_t> staleness, int local) {
  return {.staleness = staleness, .local_steps = local, .outer = OuterSgd{}};
}

const auto kCompressions = data::make({OuterCompression::none, OuterCompression::bf16,
                                       OuterCompression::int8, OuterCompression::int4}) ^
                           data::make({4.0, 2.0, 1.0, 0.5});

/// A worker's kernels beside its steps: states that are zeros, the pseudo-gradient of two reads and
/// a write, and what reads it again and writes `wire` bytes an element.
double own_kernels(double wire) {
  const double compressed = wire < 4 ? kP + kP / 4 * wire : 0;
  return (2 * kP + 3 * kP + compressed) / kCopyRate;
}

// ---- Time ----

BOOST_DATA_TEST_CASE(a_round_is_a_pull_the_steps_a_push_and_the_outer_step,
                     data::make({2, 8}) * kCompressions, local, compression, wire) {
  ParameterServer options = outer_server(std::nullopt, local);
  options.compression = compression;
  const double sent = kP / 4 * wire;
  // Parameters and momentum are read and written, and what was sent is read, in one pass.
  const double applied = (4 * kP + sent) / kTraffic;
  const double round = way(1) + local * (kC + kO) + own_kernels(wire) + way(1, sent) + applied;
  const Trace trace = trace_of(options, two_units(), server_cluster(1), 3);
  for (std::size_t k = 0; k < 3; ++k)
    BOOST_CHECK_CLOSE(trace.iteration_end[0][k].value(), (k + 1.0) * round, kPercent);
}

BOOST_DATA_TEST_CASE(in_rounds_it_sums_what_comes_and_takes_one_outer_step,
                     data::make({2, 5}) * kCompressions, workers, compression, wire) {
  ParameterServer options = outer_server(0, 4);
  options.compression = compression;
  const double n = workers, sent = kP / 4 * wire;
  const double summed = (2 * kP + sent) / kTraffic, updated = 5 * kP / kTraffic;
  const double round =
      way(n) + 4 * (kC + kO) + own_kernels(wire) + way(n, sent) + n * summed + updated;
  const Trace trace = trace_of(options, two_units(), server_cluster(workers), 3);
  BOOST_CHECK_CLOSE(trace.end.value(), 3 * round, kPercent);
}

BOOST_AUTO_TEST_CASE(without_an_outer_optimizer_a_pseudo_gradient_is_added) {
  ParameterServer options = outer_server(std::nullopt, 4);
  options.outer.reset();
  const double round = 2 * way(1) + 4 * (kC + kO) + own_kernels(4) + 3 * kP / kTraffic;
  BOOST_CHECK_CLOSE(step_of(options, two_units(), server_cluster(1)), round, kPercent);
}

BOOST_DATA_TEST_CASE(messages_of_pseudo_gradients_cost_the_cpus_what_travels, kCompressions,
                     compression, wire) {
  ParameterServer options = outer_server(std::nullopt, 2);
  options.compression = compression;
  options.apply_rate = BytesPerSecond(2e9);
  options.worker_cpu_rate = BytesPerSecond(4e9);
  options.server_cpu_rate = BytesPerSecond(8e8);
  const double sent = kP / 4 * wire;
  const double cpus = (kP + sent) / 4e9 + (kP + sent) / 8e8;
  const double round = way(1) + 2 * (kC + kO) + own_kernels(wire) + way(1, sent) + cpus + kP / 2e9;
  BOOST_CHECK_CLOSE(step_of(options, two_units(), server_cluster(1)), round, kPercent);
}

BOOST_AUTO_TEST_CASE(rounds_take_what_a_list_scheduler_says) {
  for (const auto& staleness : {std::optional<std::uint32_t>(0), std::optional<std::uint32_t>(2),
                                std::optional<std::uint32_t>()})
    for (const bool layerwise : {false, true})
      for (const bool has_cpus : {false, true})
        for (const auto compression : {OuterCompression::none, OuterCompression::int8}) {
          ParameterServer options = outer_server(staleness, 3);
          options.layerwise = layerwise;
          options.compression = compression;
          if (has_cpus) options.worker_cpu_rate = options.server_cpu_rate = BytesPerSecond(2e9);
          const Cluster cluster = server_cluster(1);
          const Schedule schedule = schedule_of(options, two_units(), cluster, 3);
          const Timetable expected = list_schedule(schedule, cluster);
          const Trace trace = play(schedule, cluster);
          BOOST_REQUIRE(!trace.spans.empty());
          for (const Span& span : trace.spans) {
            const When& when = expected[span.rank.index()][span.op.index()][span.iteration];
            BOOST_CHECK_CLOSE(span.end.value(), when.end, kPercent);
          }
        }
}

BOOST_DATA_TEST_CASE(a_pull_is_of_parameters_and_a_push_of_what_is_compressed, kCompressions,
                     compression, wire) {
  ParameterServer options = outer_server(std::nullopt, 2);
  options.compression = compression;
  options.layerwise = true;
  const Schedule schedule = schedule_of(options, two_units(), server_cluster(2));
  for (const Op& op : schedule.programs[0].ops)
    if (const auto* transfer = std::get_if<Transfer>(&op.work))
      BOOST_TEST(transfer->size.value() == (op.verb == Verb::pull ? kP / 2 : kP / 8 * wire));
}

// ---- Staleness ----

// The other worker's updates between a worker's pull and its push, as of any asynchronous server:
// the same as of one whose gradients take as long as the local steps.
BOOST_DATA_TEST_CASE(pseudo_gradients_are_as_stale_as_gradients_that_take_as_long,
                     data::make({2, 3}) * data::make({1.0, 2.7}), workers, slower) {
  constexpr int kLocal = 5;
  constexpr std::uint32_t kRounds = 12;
  const auto log_of = [&](const ParameterServer& options, double times) {
    const Cluster cluster = server_cluster(workers);
    const Toy model = toy({{kP, times * 8 * kMs, times * 12 * kMs}}, 0);
    Schedule schedule = schedule_of(options, model, cluster, kRounds);
    schedule.ranks[0].slowdown *= slower;
    return update_log(schedule, play(schedule, cluster));
  };
  ParameterServer outer = outer_server(std::nullopt, kLocal);
  ParameterServer plain{.staleness = std::nullopt};
  outer.apply_rate = plain.apply_rate = BytesPerSecond(2e9);
  const auto log = log_of(outer, 1), expected = log_of(plain, kLocal);
  BOOST_REQUIRE(log.size() == expected.size());
  for (std::size_t i = 0; i < log.size(); ++i) {
    BOOST_TEST(log[i].worker.index() == expected[i].worker.index());
    BOOST_TEST(log[i].staleness == expected[i].staleness);
    BOOST_CHECK_CLOSE(log[i].applied.value(), expected[i].applied.value(), kPercent);
  }
  const auto stalest = std::ranges::max_element(log, {}, &Update::staleness);
  BOOST_TEST(stalest->staleness >= (slower > 1 ? 2U : 1U) * static_cast<unsigned>(workers - 1));
}

BOOST_AUTO_TEST_CASE(its_log_says_what_a_replay_makes_of_pseudo_gradients) {
  ParameterServer options = outer_server(std::nullopt, 5);
  options.outer->nesterov = false;
  const Cluster cluster = server_cluster(2);
  const Schedule schedule = schedule_of(options, two_units(), cluster, 3);
  const RunUpdates run = server_updates(schedule, play(schedule, cluster), options, 1);
  BOOST_TEST(to_csv(run).starts_with(
      "# rehearse.updates/1 workers=2 warmup=1 local_steps=5 outer_learning_rate=0.7 "
      "outer_momentum=0.9 outer_nesterov=0\n"));
  BOOST_TEST(run.updates.size() == 6U);
  const LocalSgd diloco{.period = 5, .outer = OuterSgd{}};
  const Trace trace = trace_of(diloco, two_units(), star_cluster(2), 3);
  BOOST_TEST(to_csv(averaging_updates(trace, diloco, 2, 1))
                 .starts_with("# rehearse.updates/1 workers=2 warmup=1 local_steps=5 "
                              "outer_learning_rate=0.7 outer_momentum=0.9 outer_nesterov=1\n"));
}

// ---- Memory, and what a server moves ----

constexpr MemoryDevice kPlain{.caching = false};

double held(const Program& program, const std::string& owner) {
  double bytes = 0;
  for (const TensorEvent& event : program.setup) {
    const auto& tensor = program.tensors[event.tensor.index()];
    if (program.owners[tensor.owner].starts_with(owner)) bytes += tensor.size.value();
  }
  return bytes;
}

BOOST_DATA_TEST_CASE(a_server_holds_the_outer_momentum_and_not_the_inner_states, kCompressions,
                     compression, wire) {
  ParameterServer options = outer_server(std::nullopt, 4);
  options.compression = compression;
  const auto server = [&] {
    return schedule_of(options, two_units(), server_cluster(3)).programs.back();
  };
  BOOST_TEST(held(server(), "parameters") == kP);
  BOOST_TEST(held(server(), "state") == kP);
  BOOST_TEST(held(server(), "copy to send") == kP);
  BOOST_TEST(held(server(), "gradients") == 3 * kP / 4 * wire);
  options.outer->momentum = 0;
  BOOST_TEST(held(server(), "state") == 0);
  options.outer.reset();
  BOOST_TEST(held(server(), "state") == 0);
  options.local_steps = 1;
  BOOST_TEST(held(server(), "state") == 2 * kP);  // the optimizer's own step is the server's
}

BOOST_AUTO_TEST_CASE(a_worker_s_states_begin_anew_with_each_pull) {
  const ParameterServer options = outer_server(std::nullopt, 3);
  const Program worker = schedule_of(options, two_units(), server_cluster(2)).programs[0];
  // Parameters, what is pulled into, what was pulled, two states, gradients.
  BOOST_TEST(forecast_memory(worker, kPlain).allocated_peak.value() == 6 * kP);
  MemoryReplay replay(worker, kPlain);
  for (int round = 0; round < 2; ++round) {
    replay.iterate();
    const auto& kinds = replay.use().by_kind;
    BOOST_TEST(kinds[static_cast<std::size_t>(MemoryKind::optimizer_state)].value() == 0);
    BOOST_TEST(kinds[static_cast<std::size_t>(MemoryKind::communication)].value() == kP);
  }
}

BOOST_AUTO_TEST_CASE(an_outer_step_moves_what_its_optimizer_reads_and_writes) {
  const Optimizer adam{.kind = OptimizerKind::adam};
  const auto moved = [&](std::optional<std::uint32_t> staleness, double momentum,
                         OuterCompression compression, Precision precision = Precision::fp32) {
    ParameterServer options = outer_server(staleness, 4);
    options.outer->momentum = momentum;
    options.compression = compression;
    return std::pair(moved_per_gradient_byte(options, adam, precision),
                     moved_per_updated_byte(options, adam, precision));
  };
  BOOST_TEST((moved(std::nullopt, 0.9, OuterCompression::none) == std::pair(5.0, 0.0)));
  BOOST_TEST((moved(std::nullopt, 0, OuterCompression::none) == std::pair(3.0, 0.0)));
  BOOST_TEST((moved(2, 0.9, OuterCompression::int8) == std::pair(4.25, 0.0)));
  BOOST_TEST((moved(0, 0.9, OuterCompression::none) == std::pair(3.0, 5.0)));
  BOOST_TEST((moved(0, 0.9, OuterCompression::int4) == std::pair(2.125, 5.0)));
  BOOST_TEST((moved(std::nullopt, 0.9, OuterCompression::int8, Precision::bf16_pure) ==
              std::pair(4.5, 0.0)));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
