// Servers and workers over real sockets: servers in threads, workers in threads or processes.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "base/error.hpp"
#include "server/parameter_client.hpp"
#include "server/parameter_server.hpp"

using namespace rehearse;
namespace data = boost::unit_test::data;
using namespace std::chrono_literals;

namespace {

const std::string kHost = "127.0.0.1";

/// A server in a thread of its own.
struct Running {
  Endpoint endpoint;
  std::future<ServerResult> result;
};
Running start(const ParameterServerOptions& options) {
  Socket listening = listen_on({kHost, 0});
  const Endpoint endpoint{kHost, port_of(listening)};
  return {endpoint,
          std::async(std::launch::async, [options, socket = std::move(listening)]() mutable {
            return serve_parameters(std::move(socket), options);
          })};
}

ParameterServerOptions options_of(const UpdateRuleOptions& rule) {
  return {rule, Seconds(5), Seconds(5)};
}

std::span<std::byte> bytes(std::vector<double>& values) {
  return std::as_writable_bytes(std::span(values));
}

ParameterClientOptions worker_options(std::size_t worker, std::uint64_t iterations) {
  return {static_cast<std::uint32_t>(worker), ElementType::float64, iterations, Seconds(5),
          Seconds(5)};
}

using Gradient = std::function<std::vector<double>(std::size_t worker, std::uint64_t iteration,
                                                   const std::vector<double>& parameters)>;

/// Trains as one worker and returns the parameters as it saw them last.
std::vector<double> train(const std::vector<Endpoint>& servers, std::size_t worker,
                          std::uint64_t iterations, std::vector<double> parameters,
                          const Gradient& gradient) {
  ParameterClient client(servers, worker_options(worker, iterations), bytes(parameters));
  while (const auto iteration = client.pull(bytes(parameters))) {
    std::vector<double> step = gradient(worker, *iteration, parameters);
    client.push(bytes(step));
  }
  client.done();
  return parameters;
}

/// All workers in threads; what each saw last.
std::vector<std::vector<double>> train_all(const std::vector<Endpoint>& servers,
                                           std::size_t workers, std::uint64_t iterations,
                                           const std::vector<double>& initial,
                                           const Gradient& gradient) {
  std::vector<std::future<std::vector<double>>> running;
  for (std::size_t w = 0; w < workers; ++w) {
    running.push_back(std::async(std::launch::async, [&, w] {
      return train(servers, w, iterations, w == 0 ? initial : std::vector<double>(initial.size()),
                   gradient);
    }));
  }
  std::vector<std::vector<double>> results;
  for (auto& one : running) results.push_back(one.get());
  return results;
}

/// Pulls each parameter towards the worker's own target.
std::vector<double> towards(std::size_t worker, std::uint64_t,
                            const std::vector<double>& parameters) {
  std::vector<double> gradient = parameters;
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] -= static_cast<double>(worker * 10 + i);
  return gradient;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const MissingError& error) {
    return error.what();
  }
  return "no error";
}

Seconds time_of(const std::function<void()>& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A process of its own that trains slowly as worker 1 until it is killed.
pid_t fork_slow_worker(const Endpoint& endpoint) {
  const pid_t child = fork();
  if (child != 0) return child;
  try {
    train({endpoint}, 1, 1'000'000, {1, 2},
          [](auto worker, auto iteration, const auto& parameters) {
            std::this_thread::sleep_for(1ms);
            return towards(worker, iteration, parameters);
          });
  } catch (const Error&) {
  }
  _exit(0);
}

}  // namespace

// --- training

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

BOOST_AUTO_TEST_CASE(an_asynchronous_run_exceeds_that_bound) {
  // The negative control: three workers, one that sleeps, nobody waits for it.
  Running server =
      start(options_of({.workers = 3, .mode = ServerMode::asynchronous, .sgd = {1e-3, 0}}));
  train_all({server.endpoint}, 3, 60, {1, 2},
            [](auto worker, auto iteration, const auto& parameters) {
              if (worker == 2) std::this_thread::sleep_for(5ms);
              return towards(worker, iteration, parameters);
            });
  BOOST_TEST(summarize_staleness(server.result.get().log).max > 2 * (2 * 1 + 1));
}

BOOST_AUTO_TEST_CASE(a_round_with_a_backup_worker_does_not_wait_for_the_slow_one) {
  Running server = start(options_of({.workers = 3, .backup_workers = 1, .sgd = {1e-3, 0}}));
  train_all({server.endpoint}, 3, 20, {1, 2},
            [](auto worker, auto iteration, const auto& parameters) {
              if (worker == 2) std::this_thread::sleep_for(20ms);
              return towards(worker, iteration, parameters);
            });
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
  const Socket stranger = connect_to(server.endpoint, Deadline(Seconds(5)));
  const std::string nonsense = "GET / HTTP/1.1\r\nHost: somewhere else entirely\r\n\r\n";
  send_all(stranger, std::as_bytes(std::span(nonsense)), {}, Deadline(Seconds(5)), "the server");
  BOOST_TEST(train_all({server.endpoint}, 1, 3, {1, 2}, towards).size() == 1u);
  BOOST_TEST(server.result.get().log.size() == 3u);
}

// --- what goes wrong

BOOST_AUTO_TEST_CASE(a_worker_that_is_killed_ends_the_run_with_its_name_on_every_side) {
  Running server = start(options_of({.workers = 2, .sgd = {1e-3, 0}}));
  const pid_t victim = fork_slow_worker(server.endpoint);
  auto survivor = std::async(std::launch::async, [&] {
    return error_of([&] { train({server.endpoint}, 0, 1'000'000, {1, 2}, towards); });
  });
  std::this_thread::sleep_for(100ms);
  kill(victim, SIGKILL);
  waitpid(victim, nullptr, 0);
  std::string told, own;
  const Seconds waited = time_of([&] {
    told = survivor.get();
    own = error_of([&] { server.result.get(); });
  });
  BOOST_TEST(waited.value() < 2);
  BOOST_TEST(contains(own, "error: worker 1 is gone in iteration "), own);
  BOOST_TEST(contains(told, "error: worker 1 is gone in iteration "), told);
  BOOST_TEST(contains(told, "(told by the server at 127.0.0.1:"), told);
}

BOOST_AUTO_TEST_CASE(a_server_that_is_gone_is_named) {
  Socket listening = listen_on({kHost, 0});
  const Endpoint endpoint{kHost, port_of(listening)};
  const pid_t server = fork();
  if (server == 0) {
    try {
      serve_parameters(std::move(listening), options_of({.workers = 1, .sgd = {}}));
    } catch (const Error&) {
    }
    _exit(0);
  }
  listening = Socket();
  auto worker = std::async(std::launch::async, [&] {
    return error_of([&] { train({endpoint}, 0, 100'000'000, {1, 2}, towards); });
  });
  std::this_thread::sleep_for(100ms);
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  BOOST_TEST(worker.get() == "error: the server at " + to_string(endpoint) + " is gone");
}

BOOST_AUTO_TEST_CASE(a_worker_that_never_comes_is_named_in_time) {
  Running server = start({{.workers = 2, .sgd = {}}, Seconds(0.3), Seconds(5)});
  std::string told;
  const Seconds waited = time_of([&] {
    told = error_of([&] { train({server.endpoint}, 0, 10, {1, 2}, towards); });
  });
  BOOST_TEST(waited.value() < 2);
  BOOST_TEST(contains(told, "error: worker 1 did not come within 300 ms"), told);
  BOOST_CHECK_THROW(server.result.get(), MissingError);
}

BOOST_AUTO_TEST_CASE(a_worker_that_hangs_is_named_in_time) {
  Running server = start({{.workers = 2, .sgd = {}}, Seconds(5), Seconds(0.3)});
  auto hanging = std::async(std::launch::async, [&] {
    return error_of([&] {
      train({server.endpoint}, 1, 10, {1, 2}, [](auto w, auto k, const auto& parameters) {
        std::this_thread::sleep_for(1s);
        return towards(w, k, parameters);
      });
    });
  });
  const std::string told = error_of([&] { train({server.endpoint}, 0, 10, {1, 2}, towards); });
  BOOST_TEST(contains(told, "error: worker 1 was silent for 300 ms"), told);
  hanging.get();
}

BOOST_AUTO_TEST_CASE(workers_that_disagree_on_the_parameters_are_told) {
  Running server = start(options_of({.workers = 2, .sgd = {}}));
  auto other = std::async(std::launch::async, [&] {
    return error_of([&] { train({server.endpoint}, 1, 10, {1, 2, 3}, towards); });
  });
  const std::string told = error_of([&] { train({server.endpoint}, 0, 10, {1, 2}, towards); });
  other.get();
  const std::string own = error_of([&] { server.result.get(); });
  BOOST_TEST(contains(own, "of parameters; another worker brought "), own);
  BOOST_TEST(told != "no error");
}

BOOST_AUTO_TEST_CASE(a_port_in_use_is_named) {
  const Socket taken = listen_on({kHost, 0});
  const Endpoint endpoint{kHost, port_of(taken)};
  BOOST_TEST(error_of([&] { listen_on(endpoint); }) ==
             "error: cannot listen at " + to_string(endpoint) + ": another program listens there");
}

BOOST_AUTO_TEST_CASE(a_place_where_nothing_listens_is_named_in_time) {
  Socket listening = listen_on({kHost, 0});
  const Endpoint endpoint{kHost, port_of(listening)};
  listening = Socket();
  std::string text;
  const Seconds waited =
      time_of([&] { text = error_of([&] { connect_to(endpoint, Deadline(Seconds(0.3))); }); });
  BOOST_TEST(text == "error: nothing listens at " + to_string(endpoint) + " (tried for 300 ms)");
  BOOST_TEST(waited.value() < 2);
}

BOOST_AUTO_TEST_CASE(a_server_that_starts_late_is_found) {
  Socket listening = listen_on({kHost, 0});
  const Endpoint endpoint{kHost, port_of(listening)};
  listening = Socket();
  auto late = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(200ms);
    return serve_parameters(listen_on(endpoint), options_of({.workers = 1, .sgd = {1, 0}}));
  });
  BOOST_TEST(train_all({endpoint}, 1, 3, {1, 2}, towards).size() == 1u);
  BOOST_TEST(late.get().log.size() == 3u);
}

BOOST_AUTO_TEST_CASE(an_unknown_host_is_named) {
  const std::string text = error_of([] {
    connect_to({"no-such-host.invalid", 1}, Deadline(Seconds(0.3)));
  });
  BOOST_TEST(contains(text, "error: the host \"no-such-host.invalid\" is not known: "), text);
}
