#include "base/child_pool.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <new>
#include <thread>

#include "base/child_process.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(child_process_test)
namespace {

namespace data = boost::unit_test::data;
constexpr std::size_t kChildren = 7;

/// The earlier a child, the longer it takes: side by side they end in another order.
std::string late_text(std::size_t index) {
  std::this_thread::sleep_for(std::chrono::milliseconds(3 * (kChildren - index)));
  return std::string(index * 40'000, static_cast<char>('a' + index));
}

BOOST_DATA_TEST_CASE(children_come_back_in_their_order_however_many_run_at_a_time,
                     data::make({1, 2, 3, 16}), jobs) {
  const auto ends = in_child_processes(kChildren, static_cast<std::size_t>(jobs), late_text);
  BOOST_REQUIRE(ends.size() == kChildren);
  for (std::size_t i = 0; i < kChildren; ++i) {
    BOOST_TEST(ends[i].text == std::string(i * 40'000, static_cast<char>('a' + i)));
    BOOST_TEST((ends[i].code == ExitCode::success));
  }
}

BOOST_AUTO_TEST_CASE(one_child_s_failure_leaves_the_others_alone) {
  const auto ends = in_child_processes(3, 2, [](std::size_t index) -> std::string {
    if (index == 0) throw InputError("no such thing");
    if (index == 1) {
      std::signal(SIGTERM, SIG_DFL);
      kill(getpid(), SIGTERM);
    }
    return "fine";
  });
  BOOST_TEST((ends[0].code == ExitCode::input));
  BOOST_TEST(ends[0].text == "no such thing");
  BOOST_TEST((ends[1].code == ExitCode::internal));
  BOOST_TEST(ends[1].text.find("signal 15") != std::string::npos);
  BOOST_TEST(ends[2].text == "fine");
}

BOOST_AUTO_TEST_CASE(every_end_is_told_once) {
  std::vector<std::size_t> told;
  in_child_processes(
      3, 2, [](std::size_t) { return std::string(); },
      [&](std::size_t done) { told.push_back(done); });
  BOOST_TEST(told == (std::vector<std::size_t>{1, 2, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_child_that_nobody_waits_for_ends_with_its_owner) {
  pid_t process = 0;
  {
    ChildProcess child([]() -> std::string {
      std::this_thread::sleep_for(std::chrono::hours(1));
      return "";
    });
    process = child.id();
    BOOST_TEST(kill(process, 0) == 0);
  }
  BOOST_TEST(kill(process, 0) != 0);
}

BOOST_AUTO_TEST_CASE(a_child_that_takes_too_long_is_killed_and_the_others_go_on) {
  std::vector<ChildEnd> ends(3);
  const auto work = [](std::size_t index) -> std::string {
    if (index == 1) std::this_thread::sleep_for(std::chrono::hours(1));
    return "fine";
  };
  const bool all = run_children(3, {.jobs = 2, .timeout = Seconds(10)}, work,
                                [&](std::size_t index, ChildEnd end) { ends[index] = end; });
  BOOST_TEST(all);
  BOOST_TEST((ends[1].code == ExitCode::missing));
  BOOST_TEST(ends[1].text == "error: no result within 10.0 s: killed");
  BOOST_TEST(ends[0].text == "fine");
  BOOST_TEST(ends[2].text == "fine");
}

BOOST_AUTO_TEST_CASE(a_stop_ends_what_runs_and_starts_no_more) {
  std::size_t ended = 0;
  const bool all = run_children(
      1000, {.jobs = 2, .stop = [&] { return ended >= 3; }},
      [](std::size_t) -> std::string { return ""; }, [&](std::size_t, ChildEnd) { ++ended; });
  BOOST_TEST(!all);
  BOOST_TEST(ended < 10);
}

BOOST_AUTO_TEST_CASE(memory_that_is_not_there_is_missing_and_no_bug) {
  const auto ends =
      in_child_processes(1, 1, [](std::size_t) -> std::string { throw std::bad_alloc(); });
  BOOST_TEST((ends[0].code == ExitCode::missing));
  BOOST_TEST(ends[0].text == "error: out of memory");
}

#ifndef __SANITIZE_ADDRESS__  // which takes terabytes of address space for itself
BOOST_AUTO_TEST_CASE(a_child_that_takes_too_much_memory_is_out_of_it) {
  std::vector<ChildEnd> ends(2);
  const auto work = [](std::size_t index) {
    return std::string(index == 0 ? 500'000'000 : 5'000'000, 'x').substr(0, 3);
  };
  run_children(2, {.jobs = 1, .memory = Bytes(100e6)}, work,
               [&](std::size_t index, ChildEnd end) { ends[index] = end; });
  BOOST_TEST((ends[0].code == ExitCode::missing));
  BOOST_TEST(ends[0].text == "error: out of memory");
  BOOST_TEST(ends[1].text == "xxx");
}
#endif

BOOST_AUTO_TEST_CASE(a_child_does_not_outlive_a_parent_that_is_killed) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // whose children are left behind become ours
  const std::string text = in_child_process([] {
    // Never destroyed: as if this process had been killed.
    auto* const child = new ChildProcess([]() -> std::string {
      std::this_thread::sleep_for(std::chrono::seconds(20));
      return "";
    });
    return std::to_string(child->id());
  });
  int status = 0;
  BOOST_TEST(waitpid(std::stoi(text), &status, 0) == std::stoi(text));
  // Killed, or ended by itself where its parent was gone before it could ask for that.
  BOOST_TEST((WIFSIGNALED(status) || WEXITSTATUS(status) == static_cast<int>(ExitCode::internal)));
}

BOOST_AUTO_TEST_CASE(no_work_needs_no_child) {
  BOOST_TEST(in_child_processes(0, 4, late_text).empty());
}

BOOST_AUTO_TEST_CASE(a_child_s_text_comes_back_whole) {
  const std::string large(1'000'000, 'x');
  BOOST_TEST(in_child_process([&] { return large; }) == large);
}

BOOST_AUTO_TEST_CASE(an_error_in_a_child_keeps_its_code_and_its_text) {
  try {
    in_child_process([]() -> std::string { throw StuckError("it waits"); });
    BOOST_FAIL("no error");
  } catch (const Error& error) {
    BOOST_TEST((error.code() == ExitCode::stuck));
    BOOST_TEST(error.what() == std::string("it waits"));
  }
}

BOOST_AUTO_TEST_CASE(a_child_that_is_killed_is_an_internal_error) {
  const auto die = []() -> std::string {
    std::signal(SIGTERM, SIG_DFL);
    kill(getpid(), SIGTERM);
    return "";
  };
  BOOST_CHECK_THROW(in_child_process(die), InternalError);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
