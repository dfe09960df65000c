// Servers and workers over real sockets, in threads: what training with them is.
#include <algorithm>
#include <atomic>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <thread>

#include "tcp_workers.hpp"

BOOST_AUTO_TEST_SUITE(server_tcp_test)

using namespace tcp;
namespace data = boost::unit_test::data;
using namespace std::chrono_literals;

BOOST_DATA_TEST_CASE(a_synchronous_run_equals_the_sequential_one_to_the_last_bit,
                     data::make({1, 2, 3}) * data::make({1, 2, 3}), workers, servers) {
  const auto w = static_cast<std::size_t>(workers);
  std::vector<double> expected = {1, -2, 3, 0.5, 7, 1e-3, 9};
  const std::vector<double> initial = expected;
  std::vector<double> velocity(expected.size(), 0.0);
  for (std::uint64_t k = 0; k < 20; ++k) {
    std::vector<double> mean(expected.size(), 0.0);
    for (std::size_t one = 0; one < w; ++one) {
      const auto gradient = towards(one, k, expected);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += gradient[i];
    }
    for (std::size_t i = 0; i < mean.size(); ++i) {
      velocity[i] = 0.9 * velocity[i] + mean[i] / static_cast<double>(w);
      expected[i] -= 0.05 * velocity[i];
    }
  }
  std::vector<Running> running;
  std::vector<Endpoint> endpoints;
  for (int s = 0; s < servers; ++s) {
    running.push_back(start(options_of({.workers = workers, .sgd = {0.05, 0.9}})));
    endpoints.push_back(running.back().endpoint);
  }
  for (const auto& seen : train_all(endpoints, w, 20, initial, towards)) {
    for (std::size_t i = 0; i < seen.size(); ++i)
      BOOST_TEST(seen[i] == expected[i], boost::test_tools::tolerance(1e-14));
  }
  for (Running& one : running) BOOST_TEST(one.result.get().log.size() == 20 * w);
}

BOOST_AUTO_TEST_CASE(without_averaging_the_run_is_another) {
  // The negative control of the test above: a bounded server of s = 0 applies one after the other.
  const std::vector<double> initial = {1, -2, 3};
  Running synchronous = start(options_of({.workers = 2, .sgd = {0.05, 0}}));
  Running bounded = start(
      options_of({.workers = 2, .mode = ServerMode::bounded, .staleness = 0, .sgd = {0.05, 0}}));
  const double mean = train_all({synchronous.endpoint}, 2, 10, initial, towards)[0][0];
  const double each = train_all({bounded.endpoint}, 2, 10, initial, towards)[0][0];
  BOOST_TEST(std::abs(mean - each) > 1e-3);
}

/// Mean number of others' updates between a worker's own and its next pull, in the middle of a run.
double between_push_and_pull(const UpdateLog& log, std::uint64_t iterations) {
  std::map<std::uint32_t, std::uint64_t> after_own;
  double sum = 0, count = 0;
  for (const AppliedUpdate& update : log) {
    const auto own = after_own.find(update.worker);
    const bool counts = update.iteration > 4 && update.iteration + 4 < iterations;
    if (own != after_own.end() && counts) {
      sum += static_cast<double>(update.version_read - own->second);
      ++count;
    }
    after_own[update.worker] = update.version_applied + 1;
  }
  return sum / count;
}

// The server is what everybody waits for: workers send what they were given at once, and applying
// it takes the server longer than them. A pull comes with its own push, and is answered before
// others' are taken in (strategy.ps.protocol: behind_push), so that equal workers are n - 1 stale.
BOOST_DATA_TEST_CASE(a_pull_follows_its_own_push_at_a_busy_server, data::make({2, 4}), workers) {
  constexpr std::size_t kElements = 1'000'000;
  constexpr std::uint64_t kIterations = 40;
  Running server =
      start(options_of({.workers = workers, .mode = ServerMode::asynchronous, .sgd = {1e-3, 0.9}}));
  const Gradient at_once = [](auto, auto, const auto& parameters) { return parameters; };
  train_all({server.endpoint}, static_cast<std::size_t>(workers), kIterations,
            std::vector<double>(kElements, 1), at_once);
  const UpdateLog log = server.result.get().log;
  const double between = between_push_and_pull(log, kIterations);
  const double staleness = summarize_staleness(measured_updates(log, 4)).mean;
  BOOST_TEST_MESSAGE(workers << " workers: " << between << " between, " << staleness << " stale");
  BOOST_TEST(between < 0.25 * (workers - 1));
  BOOST_TEST(staleness == workers - 1.0, boost::test_tools::tolerance(0.3));
}

BOOST_DATA_TEST_CASE(no_update_is_staler_than_the_bound_allows, data::make({0, 1, 3}), bound) {
  const auto s = static_cast<std::uint64_t>(bound);
  Running server = start(
      options_of({.workers = 3, .mode = ServerMode::bounded, .staleness = s, .sgd = {1e-3, 0}}));
  const Gradient uneven = [](auto worker, auto iteration, const auto& parameters) {
    if (worker == 2 && iteration % 3 == 0) std::this_thread::sleep_for(2ms);
    return towards(worker, iteration, parameters);
  };
  train_all({server.endpoint}, 3, 60, {1, 2}, uneven);
  const UpdateLog log = server.result.get().log;
  BOOST_TEST(log.size() == 180u);
  BOOST_TEST(summarize_staleness(log).max <= 2 * (2 * s + 1));
  // Each worker's clock when it read: within s of the slowest's.
  for (const AppliedUpdate& update : log) {
    std::vector<std::uint64_t> clocks(3, 0);
    for (const AppliedUpdate& before : log) {
      if (before.version_applied < update.version_read) ++clocks[before.worker];
    }
    const bool all_busy = *std::min_element(clocks.begin(), clocks.end()) < 60;
    if (all_busy)
      BOOST_TEST(update.iteration <= *std::min_element(clocks.begin(), clocks.end()) + s);
  }
}

/// Worker 2's first gradient comes once another worker is at the given iteration.
Gradient once_another_is_at(std::uint64_t iteration) {
  return [iteration, there = std::make_shared<std::atomic<bool>>(false)](auto worker, auto own,
                                                                         const auto& parameters) {
    if (worker != 2 && own == iteration) {
      *there = true;
      there->notify_all();
    }
    if (worker == 2) there->wait(false);
    return towards(worker, own, parameters);
  };
}

BOOST_AUTO_TEST_CASE(an_asynchronous_run_exceeds_that_bound) {
  // The negative control: three workers, one that is late, nobody waits for it.
  Running server =
      start(options_of({.workers = 3, .mode = ServerMode::asynchronous, .sgd = {1e-3, 0}}));
  train_all({server.endpoint}, 3, 60, {1, 2}, once_another_is_at(20));
  BOOST_TEST(summarize_staleness(server.result.get().log).max > 2 * (2 * 1 + 1));
}

BOOST_AUTO_TEST_CASE(a_round_with_a_backup_worker_does_not_wait_for_the_slow_one) {
  Running server = start(options_of({.workers = 3, .backup_workers = 1, .sgd = {1e-3, 0}}));
  train_all({server.endpoint}, 3, 20, {1, 2}, once_another_is_at(3));
  const ServerResult result = server.result.get();
  BOOST_TEST(result.log.size() == 40u);
  BOOST_TEST(result.dropped > 0u);
}

BOOST_AUTO_TEST_CASE(parameters_larger_than_any_socket_buffer_arrive_whole) {
  std::vector<double> initial(3'000'001);
  for (std::size_t i = 0; i < initial.size(); ++i) initial[i] = static_cast<double>(i);
  Running server = start(options_of({.workers = 2, .sgd = {1, 0}}));
  const auto seen =
      train_all({server.endpoint}, 2, 2, initial, [&](auto, auto, const auto& parameters) {
        return std::vector<double>(parameters.size(), 1.0);
      });
  for (const auto& one : seen) {
    BOOST_TEST(one.front() == -2);
    BOOST_TEST(one[1'500'000] == 1'499'998);
    BOOST_TEST(one.back() == 2'999'998);
  }
  // Per worker 3 pulls and 2 pushes of 24 MB, each with its head; requests, hello and goodbye.
  const ServerResult result = server.result.get();
  BOOST_TEST(result.sent.value() == 2 * 3 * (8 * 3'000'001.0 + 40));
  BOOST_TEST(result.received.value() ==
             2 * (2 * (8 * 3'000'001.0 + 40) + 3 * 40 + 40 + 40) + 8 * 3'000'001.0);
}

BOOST_AUTO_TEST_CASE(a_stranger_that_talks_nonsense_disturbs_nobody) {
  Running server = start(options_of({.workers = 1, .sgd = {1, 0}}));
  const Socket stranger = connect_to(server.endpoint, Deadline(kPatient));
  const std::string nonsense = "GET / HTTP/1.1\r\nHost: somewhere else entirely\r\n\r\n";
  send_all(stranger, std::as_bytes(std::span(nonsense)), {}, Deadline(kPatient), "the server");
  BOOST_TEST(train_all({server.endpoint}, 1, 3, {1, 2}, towards).size() == 1u);
  BOOST_TEST(server.result.get().log.size() == 3u);
}

BOOST_AUTO_TEST_SUITE_END()
