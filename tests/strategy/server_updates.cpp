// The update log of a simulated parameter server, as a replay reads it.
#include "predict/server_updates.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <set>

#include "report/report.hpp"
#include "report/update_log.hpp"
#include "strategy/jobs.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(server_updates_test)
namespace {

namespace data = boost::unit_test::data;

constexpr std::uint32_t kIterations = 12;

RunUpdates updates_of(const ParameterServer& options, int workers, double straggler = 1) {
  const Cluster cluster = server_cluster(workers, options.servers);
  Schedule schedule =
      schedule_of(options, toy({{kMiB, 3 * kMs, 7 * kMs}}, 0), cluster, kIterations);
  schedule.ranks[0].slowdown *= straggler;
  schedule.jitter = {.distribution = Jitter::Distribution::exponential, .cv = 1};
  return server_updates(schedule, play(schedule, cluster), options, 2);
}

BOOST_DATA_TEST_CASE(every_worker_s_every_gradient_is_in_the_log, data::make({1, 2}), servers) {
  const RunUpdates run = updates_of({.servers = servers, .staleness = std::nullopt}, 4);
  BOOST_TEST(run.workers == 4u);
  BOOST_TEST(run.warmup == 2u);
  std::set<std::pair<std::uint32_t, std::uint64_t>> seen;
  std::uint64_t version = 0;
  for (const AppliedUpdate& update : run.updates) {
    BOOST_TEST(update.version_applied == version++);
    BOOST_TEST(seen.insert({update.worker, update.iteration}).second);
  }
  BOOST_TEST(seen.size() == 4u * kIterations);
}

BOOST_AUTO_TEST_CASE(the_log_has_the_report_s_staleness) {
  const ParameterServer options{.staleness = std::nullopt};
  const Cluster cluster = server_cluster(4, 1);
  Schedule schedule =
      schedule_of(options, toy({{kMiB, 3 * kMs, 7 * kMs}}, 0), cluster, kIterations);
  schedule.jitter = {.distribution = Jitter::Distribution::exponential, .cv = 1};
  const Trace trace = play(schedule, cluster);
  const auto report = staleness_of(update_log(schedule, trace), 0);
  const StalenessSummary log =
      summarize_staleness(server_updates(schedule, trace, options, 0).updates);
  BOOST_REQUIRE(report);
  BOOST_TEST(std::abs(report->mean - log.mean) < 1e-9);
  BOOST_TEST(report->max == log.max);
}

BOOST_AUTO_TEST_CASE(a_synchronous_round_has_every_worker_s_gradient_once) {
  const RunUpdates run = updates_of({.staleness = 0}, 3);
  BOOST_REQUIRE(run.updates.size() == 3u * kIterations);
  for (std::size_t i = 0; i < run.updates.size(); ++i) {
    BOOST_TEST(run.updates[i].worker == i % 3);
    BOOST_TEST(run.updates[i].version_applied == i / 3);
    BOOST_TEST(run.updates[i].staleness() == 0u);
  }
}

BOOST_AUTO_TEST_CASE(a_backup_worker_s_late_gradient_is_not_in_it) {
  // Worker 0 is ten times as slow: nearly always the last of the three.
  const RunUpdates run = updates_of({.staleness = 0, .backup_workers = 1}, 3, 10);
  BOOST_TEST(run.mitigation.backup_workers == 1u);
  BOOST_REQUIRE(run.updates.size() == 2u * kIterations);
  const auto slow = std::ranges::count(run.updates, 0U, &AppliedUpdate::worker);
  BOOST_TEST(slow < static_cast<std::ptrdiff_t>(kIterations) / 2);
}

BOOST_AUTO_TEST_CASE(a_bound_is_written_with_it) {
  BOOST_TEST(*updates_of({.staleness = 2}, 3).mitigation.staleness_bound == 2u);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
