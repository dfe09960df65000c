// Bounded staleness, from what ran: when workers read and when servers applied.
//
// The bound s: a worker's iteration k starts after every worker's iteration k-s-1 is applied. When
// worker w reads for k, each other worker v has had at least k-s of its updates applied. Until w's
// own k is applied, v cannot start k+s+1: at most k+s+1 of its updates are. So no more than 2s+1 of
// v's updates lie between, and an update is at most (W-1)(2s+1) stale. (What is
// read for k misses at most s of each worker's first k updates, as in Ho et al. 2013; the rest
// happens meanwhile.)
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "report/report.hpp"
#include "report/update_log.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(staleness_test)
namespace {

namespace data = boost::unit_test::data;

constexpr double kP = kMiB, kC = 10 * kMs, kApply = kP / 2e9;
double way(double load) { return kNicLatency + load * kP / kNic; }

Toy one_unit() { return toy({{kP, 3 * kMs, 7 * kMs}}, 0); }

ParameterServer server(std::optional<std::uint32_t> staleness) {
  return {.staleness = staleness, .apply_rate = BytesPerSecond(2e9)};
}

const Jitter kExponential{.distribution = Jitter::Distribution::exponential, .cv = 1};

struct Played {
  Schedule schedule;
  Trace trace;
  std::vector<Update> log;
};

Played play_server(const ParameterServer& options, int workers, std::uint32_t iterations,
                   double straggler = 1, Jitter jitter = {}, int servers = 1) {
  const Cluster cluster = server_cluster(workers, servers);
  Played played{schedule_of(options, one_unit(), cluster, iterations), {}, {}};
  played.schedule.ranks[0].slowdown *= straggler;
  played.schedule.jitter = jitter;
  played.trace = play(played.schedule, cluster);
  played.log = update_log(played.schedule, played.trace);
  return played;
}

/// By worker and iteration: when its first pull started, or its last part was applied.
std::vector<std::vector<double>> when(const Played& played, int workers, const std::string& label) {
  std::vector<std::vector<double>> times(static_cast<std::size_t>(workers),
                                         std::vector<double>(played.schedule.iterations, -1));
  for (const Span& span : played.trace.spans) {
    if (span.rank.index() >= times.size()) continue;
    const Op& op = played.schedule.program_of(span.rank).ops[span.op.index()];
    if (!op.label().starts_with(label)) continue;
    double& time = times[span.rank.index()][span.iteration];
    if (label == "apply")
      time = std::max(time, span.end.value());
    else if (time < 0 || span.start.value() < time)
      time = span.start.value();
  }
  return times;
}

BOOST_DATA_TEST_CASE(like_workers_are_n_minus_1_stale, data::make({1, 2, 4, 8, 16}), workers) {
  // From the second iteration on they take turns: between a worker's read and its update each other
  // one updates once.
  const Played played = play_server(server(std::nullopt), workers, 20);
  BOOST_TEST(played.log.size() == static_cast<std::size_t>(20 * workers));
  const auto report = staleness_of(played.log, 1);
  BOOST_REQUIRE(report);
  BOOST_TEST(report->mean == workers - 1.0);
  BOOST_TEST(report->max == static_cast<std::uint32_t>(workers - 1));
}

// The server is what everybody waits for: a message takes its CPU ten times as long as a worker
// computes. Where a pull comes behind its own push nobody's update passes between the two, and each
// other worker updates once until the next; where it waits as a request of its own, those whose
// pushes wait before it do.
BOOST_DATA_TEST_CASE(the_protocol_says_what_passes_between_push_and_pull,
                     data::make({2, 4, 8}) * data::make({false, true}), workers, behind) {
  using Protocol = ParameterServer::Protocol;
  ParameterServer options = server(std::nullopt);
  options.server_cpu_rate = BytesPerSecond(kP / (10 * kC));
  options.protocol = behind ? Protocol::behind_push : Protocol::own_request;
  const Played played = play_server(options, workers, 30);
  const auto late = [](const Update& update) { return update.iteration >= 10; };
  const auto between = between_push_and_pull(played.log, late);
  BOOST_REQUIRE(between);
  const double staleness = staleness_of(played.log, 10)->mean;
  if (behind) BOOST_TEST(*between == 0.0);
  if (!behind) BOOST_TEST(*between > 0.15 * (workers - 1));
  BOOST_TEST(*between + staleness == workers - 1.0, boost::test_tools::tolerance(0.1));
}

BOOST_DATA_TEST_CASE(with_jitter_like_workers_are_n_minus_1_stale_on_average,
                     data::make({0.02, 0.2, 1.0}), cv) {
  // A worker reads when its own update is applied, so each update of another lies in exactly one of
  // its intervals: the sum of its staleness is the number of others' updates before its last one.
  // That falls short of (N-1) K by what the others still have to do then.
  const int workers = 4;
  const std::uint32_t iterations = 200;
  Jitter jitter{.distribution = Jitter::Distribution::lognormal, .cv = cv};
  if (cv == 1.0) jitter = kExponential;
  const Played played = play_server(server(std::nullopt), workers, iterations, 1, jitter);
  std::vector<std::uint64_t> sum(workers, 0), others(workers, 0), done(workers, 0);
  for (std::size_t version = 0; version < played.log.size(); ++version) {
    const Update& update = played.log[version];
    const std::size_t w = update.worker.index();
    sum[w] += update.staleness;
    others[w] = version - done[w]++;
  }
  BOOST_TEST(sum == others, boost::test_tools::per_element());
  BOOST_TEST(staleness_of(played.log, 0)->mean == workers - 1.0,
             boost::test_tools::tolerance(0.05));
}

/// Standard deviation.
double spread(const StalenessReport& report) {
  double squares = 0, count = 0;
  for (const auto& [staleness, updates] : report.histogram) {
    squares += static_cast<double>(updates) * std::pow(staleness - report.mean, 2);
    count += static_cast<double>(updates);
  }
  return std::sqrt(squares / count);
}

BOOST_AUTO_TEST_CASE(memoryless_workers_have_a_geometric_staleness) {
  // K = 5 whose whole iteration is exponential: P(k) = 0.2 x 0.8^k, so that the mean is 4, the
  // standard deviation sqrt(20) = 4.47, and 1 - 0.8^21 > 0.99 the first above it. Where a quarter
  // of the mean compute goes to ways of a fixed length, iterations spread less (cv 0.8): 3.6,
  // and 17.
  constexpr int kWorkers = 5;
  constexpr std::uint32_t kIterations = 6000;
  for (const auto& [ways, deviation, p99] :
       {std::tuple(0.0, 4.47, 20.0), std::tuple(0.25, 3.6, 17.0)}) {
    BOOST_TEST_CONTEXT("both ways take " << ways << " of the compute") {
      Cluster cluster = server_cluster(kWorkers);
      for (NodeGroup& group : cluster.groups) group.node.nic_latency = Seconds(ways * kC / 2);
      Schedule schedule =
          schedule_of(server(std::nullopt), toy({{4, kC / 2, kC / 2}}, 0), cluster, kIterations);
      schedule.jitter = kExponential;
      const Trace trace = play(schedule, cluster);
      const auto report =
          staleness_of(update_log(schedule, trace), 20, trace.iteration_end[0].back());
      BOOST_REQUIRE(report);
      BOOST_TEST(report->mean == 4, boost::test_tools::tolerance(0.02));
      BOOST_TEST(spread(*report) == deviation, boost::test_tools::tolerance(0.03));
      BOOST_TEST(std::abs(report->p99 - p99) <= 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_asynchronous_straggler_holds_up_nobody) {
  // Alone on the NIC at other times than the straggler, a fast worker's iteration is pull, compute,
  // push, apply.
  const Played played = play_server(server(std::nullopt), 2, 5, 3);
  const double cycle = way(1) + kC + way(1) + kApply;
  const auto reads = when(played, 2, "pull");
  BOOST_CHECK_CLOSE(reads[1][2] - reads[1][1], cycle, kPercent);
  BOOST_TEST(played.trace.iteration_end[1][4].value() < played.trace.iteration_end[0][1].value());
}

/// Every read of iteration k comes after every worker's update k-s-1.
void check_reads(const Played& played, int workers, std::uint32_t s) {
  const auto reads = when(played, workers, "pull"), applied = when(played, workers, "apply");
  for (const auto& worker : reads)
    for (std::uint32_t k = s + 1; k < played.schedule.iterations; ++k)
      for (const auto& other : applied) BOOST_TEST(worker[k] >= other[k - s - 1]);
}

void check_bound(const Played& played, int workers, std::uint32_t s) {
  check_reads(played, workers, s);
  const auto report = staleness_of(played.log, 0);
  BOOST_TEST(report->max <= static_cast<std::uint32_t>(workers - 1) * (2 * s + 1));
}

BOOST_DATA_TEST_CASE(no_worker_runs_ahead_of_the_bound,
                     data::make({1U, 2U, 5U}) * data::make({1.0, 3.0}) * data::make({0, 1}), s,
                     straggler, jittered) {
  const int workers = 4;
  check_bound(play_server(server(s), workers, 60, straggler, jittered ? kExponential : Jitter{}),
              workers, s);
}

BOOST_DATA_TEST_CASE(with_several_servers_every_part_of_an_update_counts,
                     data::make({0U, 1U, 3U}) * data::make({0, 1}), s, layerwise) {
  ParameterServer options = server(s);
  options.servers = 2;
  options.layerwise = layerwise == 1;
  check_reads(play_server(options, 4, 40, 3, kExponential, 2), 4, s);
}

BOOST_AUTO_TEST_CASE(the_bound_on_staleness_is_reached) {
  // Two workers of random speed, s = 1: at some time one is two behind and then two ahead. 2s+1
  // = 3.
  const Played played = play_server(server(1), 2, 400, 1, kExponential);
  check_bound(played, 2, 1);
  BOOST_TEST(staleness_of(played.log, 0)->max == 3U);
}

BOOST_DATA_TEST_CASE(workers_wait_for_a_straggler_after_s_plus_1_iterations,
                     data::make({1U, 2U, 5U}), s) {
  // While the straggler computes its first gradient the other three do iterations 0 to s: 3 (s+1)
  // updates precede its own.
  const Played played = play_server(server(s), 4, s + 3, 100);
  const auto slow = std::find_if(played.log.begin(), played.log.end(),
                                 [](const Update& update) { return update.worker.index() == 0; });
  BOOST_TEST(slow->staleness == 3 * (s + 1));
  const auto reads = when(played, 4, "pull"), applied = when(played, 4, "apply");
  for (std::size_t fast = 1; fast < 4; ++fast) {
    BOOST_TEST(applied[fast][s] < applied[0][0]);
    BOOST_TEST(reads[fast][s + 1] == applied[0][0]);
  }
}

BOOST_DATA_TEST_CASE(in_the_long_run_a_bound_goes_at_the_straggler_s_pace, data::make({1U, 3U}),
                     s) {
  // The straggler's cycle, its pull beside the other worker's that waited for the same update;
  // until that one is through.
  const Played played = play_server(server(s), 2, 20, 3);
  const auto reads = when(played, 2, "pull"), applied = when(played, 2, "apply");
  const double cycle = way(2) + 3 * kC + way(1) + kApply;
  for (std::size_t k = 10; k < 20 - s; ++k) {
    BOOST_CHECK_CLOSE(applied[0][k] - applied[0][k - 1], cycle, kPercent);
    BOOST_TEST(reads[1][k] == applied[0][k - s - 1]);
  }
}

BOOST_DATA_TEST_CASE(synchronous_updates_are_never_stale, data::make({1, 3}) * data::make({0, 1}),
                     servers, layerwise) {
  ParameterServer options = server(0);
  options.servers = servers;
  options.layerwise = layerwise == 1;
  const Played played = play_server(options, 4, 10, 3, kExponential, servers);
  BOOST_TEST(played.log.size() == 10U);
  BOOST_TEST(staleness_of(played.log, 0)->max == 0U);
}

BOOST_AUTO_TEST_CASE(a_synchronous_read_follows_every_worker_s_gradient_of_the_iteration_before) {
  const int workers = 4;
  const Played played = play_server(server(0), workers, 20, 3, kExponential);
  const auto reads = when(played, workers, "pull"), applied = when(played, workers, "apply");
  for (std::size_t k = 1; k < 20; ++k) {
    double last = 0;
    for (const auto& worker : applied) last = std::max(last, worker[k - 1]);
    for (const auto& worker : reads) BOOST_TEST(worker[k] == last);
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
