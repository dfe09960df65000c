// What goes wrong between servers and workers over real sockets, in threads and processes.
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <thread>

#include "base/child_process.hpp"
#include "base/error.hpp"
#include "server/connection.hpp"
#include "tcp_workers.hpp"

BOOST_AUTO_TEST_SUITE(server_failures_test)

using namespace tcp;
using namespace std::chrono_literals;

namespace {

/// Long before anybody's patience ends.
constexpr double kSoon = 50;

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

/// A process of its own that trains slowly as worker 1 until it is killed; it does so when this
/// returns.
pid_t fork_slow_worker(const Endpoint& endpoint) {
  std::array<int, 2> trains{};
  BOOST_REQUIRE(pipe(trains.data()) == 0);
  const pid_t child = fork();
  if (child != 0) {
    close(trains[1]);
    char told = 0;
    BOOST_REQUIRE(read(trains[0], &told, 1) == 1);
    close(trains[0]);
    return child;
  }
  try {
    train({endpoint}, 1, 1'000'000, {1, 2},
          [&](auto worker, auto iteration, const auto& parameters) {
            if (iteration == 1 && write(trains[1], "x", 1) != 1) _exit(1);
            std::this_thread::sleep_for(1ms);
            return towards(worker, iteration, parameters);
          });
  } catch (const Error&) {
  }
  _exit(0);
}

/// Lets this process have `bytes` more of private memory than it has now, which depends on the
/// LibTorch that it is linked with and on what ran before.
void allow_more_data(std::size_t bytes) {
  std::ifstream statm("/proc/self/statm");
  std::size_t size = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  statm >> size >> resident >> shared >> text >> library >> data;
  const rlim_t most = data * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit limit{most, most};
  setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_worker_that_is_killed_ends_the_run_with_its_name_on_every_side) {
  Running server = start(options_of({.workers = 2, .sgd = {1e-3, 0}}));
  auto survivor = std::async(std::launch::async, [&] {
    return error_of([&] { train({server.endpoint}, 0, 1'000'000, {1, 2}, towards); });
  });
  const pid_t victim = fork_slow_worker(server.endpoint);
  kill(victim, SIGKILL);
  waitpid(victim, nullptr, 0);
  std::string told, own;
  const Seconds waited = time_of([&] {
    told = survivor.get();
    own = error_of([&] { server.result.get(); });
  });
  BOOST_TEST(waited.value() < kSoon);
  BOOST_TEST(contains(own, "error: worker 1 is gone in iteration "), own);
  BOOST_TEST(contains(told, "error: worker 1 is gone in iteration "), told);
  BOOST_TEST(contains(told, "(told by the server at 127.0.0.1:"), told);
}

BOOST_AUTO_TEST_CASE(a_size_that_nobody_sends_takes_no_memory) {
  const std::string said = in_child_process([] {
    allow_more_data(std::size_t{64} << 20);
    std::array<int, 2> ends{};
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data());
    Header header;
    header.size = std::uint64_t{1} << 39;
    send(ends[0], &header, sizeof header, 0);
    send(ends[0], "half a terabyte", 15, 0);
    Connection connection{Socket(ends[1])};
    const bool whole = connection.receive(std::uint64_t{1} << 40).has_value();
    return std::string(whole ? "whole" : "waits") + (connection.open() ? ", open" : ", closed");
  });
  BOOST_TEST(said == "waits, open");
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
  std::promise<void> trains;
  auto worker = std::async(std::launch::async, [&] {
    return error_of([&] {
      train({endpoint}, 0, 100'000'000, {1, 2}, [&](auto w, auto k, const auto& parameters) {
        if (k == 1) trains.set_value();
        return towards(w, k, parameters);
      });
    });
  });
  trains.get_future().wait();
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  BOOST_TEST(worker.get() == "error: the server at " + to_string(endpoint) + " is gone");
}

BOOST_AUTO_TEST_CASE(a_worker_that_never_comes_is_named_in_time) {
  Running server = start({{.workers = 2, .sgd = {}}, Seconds(3), kPatient});
  std::string told;
  const Seconds waited = time_of([&] {
    told = error_of([&] { train({server.endpoint}, 0, 10, {1, 2}, towards); });
  });
  BOOST_TEST(waited.value() < kSoon);
  BOOST_TEST(contains(told, "error: worker 1 did not come within 3.00 s"), told);
  BOOST_CHECK_THROW(server.result.get(), MissingError);
}

BOOST_AUTO_TEST_CASE(a_worker_that_hangs_is_named_in_time) {
  Running server = start({{.workers = 2, .sgd = {}}, kPatient, Seconds(3)});
  std::promise<void> over;
  auto hanging = std::async(std::launch::async, [&] {
    return error_of([&] {
      train({server.endpoint}, 1, 10, {1, 2}, [&](auto w, auto k, const auto& parameters) {
        over.get_future().wait();
        return towards(w, k, parameters);
      });
    });
  });
  const std::string told = error_of([&] { train({server.endpoint}, 0, 10, {1, 2}, towards); });
  BOOST_TEST(contains(told, "error: worker 1 was silent for 3.00 s"), told);
  over.set_value();
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
  const Socket reserved = reserve_port();
  const Endpoint endpoint{kHost, port_of(reserved)};
  std::string text;
  const Seconds waited =
      time_of([&] { text = error_of([&] { connect_to(endpoint, Deadline(Seconds(0.3))); }); });
  BOOST_TEST(text == "error: nothing listens at " + to_string(endpoint) + " (tried for 300 ms)");
  BOOST_TEST(waited.value() < kSoon);
}

BOOST_AUTO_TEST_CASE(a_server_that_starts_late_is_found) {
  const Socket reserved = reserve_port();
  const Endpoint endpoint{kHost, port_of(reserved)};
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

BOOST_AUTO_TEST_SUITE_END()
