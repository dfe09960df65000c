#include "base/child_process.hpp"

#include <unistd.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <thread>

namespace rehearse {
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

BOOST_AUTO_TEST_CASE(no_work_needs_no_child) {
  BOOST_TEST(in_child_processes(0, 4, late_text).empty());
}

}  // namespace
}  // namespace rehearse
