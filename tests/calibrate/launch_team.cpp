// Processes as a launcher starts them: they meet at a port, and what ends one ends all.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <iterator>
#include <list>

#include "launched_process.hpp"
#include "server/socket.hpp"

namespace rehearse {
namespace {

namespace data = boost::unit_test::data;
using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

/// In which a process comes that was started already.
constexpr seconds kMeeting{5};
const std::string kHost = "127.0.0.1";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_and_helpers_know_what_rank_0_announced_and_rank_0_has_all_texts) {
  const Socket reserved = reserve_port();
  const int port = port_of(reserved);
  TeamWork team;
  team.announce = [](const std::string& address) { return "at " + address; };
  team.helpers = 1;
  team.work = [](const RankEnvironment& self, const std::string& announced) {
    return fmt::format("{} of {} {}", self.rank, self.world_size, announced);
  };
  std::list<Process> processes;
  for (int rank : {2, 0, 1}) processes.emplace_back(rank, 3, port, team);
  for (Process& process : processes) BOOST_TEST(process.wait() == 0);
  const auto rank_0 = std::next(processes.begin());
  BOOST_TEST(rank_0->text() ==
             "0 of 3 at 127.0.0.1;1 of 3 at 127.0.0.1;2 of 3 at 127.0.0.1;3 of 3 at 127.0.0.1;");
  BOOST_TEST(processes.front().text() == "");
}

BOOST_AUTO_TEST_CASE(ranks_started_here_are_told_the_same) {
  TeamWork team;
  team.announce = [](const std::string& address) { return address; };
  team.helpers = 1;
  team.work = [](const RankEnvironment& self, const std::string& announced) {
    return fmt::format("{} of {} {}", self.rank, self.world_size, announced);
  };
  const auto texts = collect_from_team(2, team);
  BOOST_REQUIRE(texts.size() == 3u);
  BOOST_TEST(texts[2] == "2 of 2 127.0.0.1");
}

BOOST_DATA_TEST_CASE(a_killed_worker_is_named_on_every_rank, data::make({0, 1, 2}), victim) {
  const Marks marks;
  const Socket reserved = reserve_port();
  const int port = port_of(reserved);
  const TeamWork team = hanging(marks);
  std::list<Process> processes;
  for (int rank : {0, 1, 2}) processes.emplace_back(rank, 3, port, team);
  pid_t workers[] = {marks.await(0), marks.await(1), marks.await(2)};
  const auto begin = Clock::now();
  kill(workers[victim], SIGKILL);
  const std::string expected = fmt::format("rank {} of 3 was ended by signal 9 (Killed)", victim);
  for (Process& process : processes) {
    BOOST_TEST(process.wait() == static_cast<int>(ExitCode::missing));
    BOOST_TEST(contains(process.text(), expected), process.text());
  }
  BOOST_TEST((Clock::now() - begin < kBound));
  for (const pid_t worker : workers) BOOST_TEST(gone(worker));
}

BOOST_DATA_TEST_CASE(a_killed_process_of_the_launcher_ends_the_others, data::make({0, 1}), victim) {
  const Marks marks;
  const Socket reserved = reserve_port();
  const int port = port_of(reserved);
  const TeamWork team = hanging(marks);
  std::list<Process> processes;
  for (int rank : {0, 1, 2}) processes.emplace_back(rank, 3, port, team);
  pid_t workers[] = {marks.await(0), marks.await(1), marks.await(2)};
  const auto begin = Clock::now();
  kill(std::next(processes.begin(), victim)->id(), SIGKILL);
  int rank = 0;
  for (Process& process : processes) {
    if (rank++ == victim) continue;
    BOOST_TEST(process.wait() == static_cast<int>(ExitCode::missing));
    BOOST_TEST(contains(process.text(), fmt::format("error: rank {} of 3 is gone", victim)),
               process.text());
  }
  BOOST_TEST((Clock::now() - begin < kBound));
  for (const pid_t worker : workers) BOOST_TEST(gone(worker));
}

BOOST_AUTO_TEST_CASE(a_rank_killed_while_results_are_gathered_is_named) {
  const Marks marks;
  const Socket reserved = reserve_port();
  const int port = port_of(reserved);
  TeamWork team;
  team.work = [&marks](const RankEnvironment& self, const std::string&) -> std::string {
    marks.set(self.rank);
    if (self.rank == 1) hang();
    return "done";
  };
  Process rank_0(0, 2, port, team), rank_1(1, 2, port, team);
  BOOST_REQUIRE(gone(marks.await(0)));
  kill(rank_1.id(), SIGKILL);
  BOOST_TEST(rank_0.wait() == static_cast<int>(ExitCode::missing));
  BOOST_TEST(contains(rank_0.text(), "error: rank 1 of 2 is gone"), rank_0.text());
}

BOOST_AUTO_TEST_CASE(a_rank_killed_before_all_have_come_is_named) {
  const Marks marks;
  const Socket reserved = reserve_port();
  const int port = port_of(reserved);
  const TeamWork team = hanging(marks);
  Process rank_0(0, 3, port, team);
  // Nobody but rank 0 sees when rank 1 has come: it gets longer and longer for that.
  for (useconds_t life = 100000; !ended(rank_0.id()); life *= 2) {
    {
      Process rank_1(1, 3, port, team);
      usleep(life);
    }
    usleep(300000);
  }
  BOOST_TEST(rank_0.wait() == static_cast<int>(ExitCode::missing));
  BOOST_TEST(rank_0.text() == "error: rank 1 of 3 was gone before all had come");
}

BOOST_AUTO_TEST_CASE(an_error_of_a_rank_keeps_its_code_and_text_everywhere) {
  const Socket reserved = reserve_port();
  const int port = port_of(reserved);
  TeamWork team;
  team.work = [](const RankEnvironment& self, const std::string&) -> std::string {
    if (self.rank == 1) throw InputError("error: no such model");
    hang();
  };
  Process rank_0(0, 2, port, team), rank_1(1, 2, port, team);
  BOOST_TEST(rank_0.wait() == static_cast<int>(ExitCode::input));
  BOOST_TEST(rank_1.wait() == static_cast<int>(ExitCode::missing));
  BOOST_TEST(rank_0.text() == "error: no such model (in rank 1 of 2)");
  BOOST_TEST(rank_1.text() == "error: no such model (in rank 1 of 2) (told by rank 0)");
}

BOOST_AUTO_TEST_CASE(ranks_that_never_come_are_named) {
  const Socket reserved = reserve_port();
  const int port = port_of(reserved);
  const Marks marks;
  const RunLimits limits{.meeting = kMeeting};
  const TeamWork team = hanging(marks);
  Process rank_0(0, 4, port, team, limits), rank_2(2, 4, port, team, {});
  BOOST_TEST(rank_0.wait() == static_cast<int>(ExitCode::missing));
  BOOST_TEST(rank_2.wait() == static_cast<int>(ExitCode::missing));
  const std::string expected =
      fmt::format("error: ranks 1, 3 of 4 did not come to port {} within 5.00 s", port);
  BOOST_TEST(rank_0.text() == expected);
  BOOST_TEST(rank_2.text() == expected + " (told by rank 0)");
}

BOOST_AUTO_TEST_CASE(a_master_that_refuses_is_named) {
  const Socket reserved = reserve_port();
  const int port = port_of(reserved);
  Process rank_1(1, 2, port, {}, {.meeting = seconds(1)});
  BOOST_TEST(rank_1.wait() == static_cast<int>(ExitCode::missing));
  BOOST_TEST(contains(rank_1.text(),
                      fmt::format("error: nothing listens at 127.0.0.1:{} (tried for 1.00 s) (by "
                                  "rank 1 of 2)\nremedy: ",
                                  port)),
             rank_1.text());
}

BOOST_AUTO_TEST_CASE(a_master_that_says_nothing_is_given_up) {
  const Socket silent = listen_on({kHost, 0});
  const auto begin = Clock::now();
  Process rank_1(1, 2, port_of(silent), {}, {.meeting = seconds(1)});
  BOOST_TEST(rank_1.wait() == static_cast<int>(ExitCode::missing));
  BOOST_TEST(rank_1.text() ==
             "error: rank 1 of 2 met rank 0, and the others did not within 1.00 s");
  BOOST_TEST((Clock::now() - begin < kBound));
}

BOOST_AUTO_TEST_CASE(a_port_in_use_is_named_with_a_remedy) {
  const Socket taken = listen_on({"", 0});
  Process rank_0(0, 2, port_of(taken), {});
  BOOST_TEST(rank_0.wait() == static_cast<int>(ExitCode::missing));
  BOOST_TEST(contains(rank_0.text(), "another program listens there\nremedy: set MASTER_PORT"),
             rank_0.text());
}

BOOST_AUTO_TEST_CASE(rank_0_listens_at_the_master_s_address_alone) {
  const Socket reserved = reserve_port();
  const int port = port_of(reserved);
  Process rank_0(0, 2, port, {});
  const auto port_number = static_cast<std::uint16_t>(port);
  const Socket invited = connect_to({kHost, port_number}, Deadline(Seconds(20)));
  try {
    connect_to({"127.0.0.2", port_number}, Deadline(Seconds(0.2)));
    BOOST_TEST(false, "it listens at 127.0.0.2, too");
  } catch (const MissingError& error) {
    BOOST_TEST(contains(error.what(), "nothing listens at 127.0.0.2"), error.what());
  }
}

BOOST_AUTO_TEST_CASE(ranks_of_one_node_meet_in_a_file_and_stay_on_the_loopback) {
  const Socket reserved = reserve_port();
  const int port = port_of(reserved);
  TeamWork team;
  team.work = [](const RankEnvironment& self, const std::string&) {
    return self.own_address + (self.store_file.empty() ? " at a port" : " in a file");
  };
  Process rank_0(0, 2, port, team), rank_1(1, 2, port, team);
  BOOST_TEST(rank_0.wait() == 0);
  BOOST_TEST(rank_0.text() == "127.0.0.1 in a file;127.0.0.1 in a file;");
  BOOST_TEST(rank_1.wait() == 0);
}

BOOST_AUTO_TEST_CASE(a_second_process_of_one_rank_is_told) {
  const Socket reserved = reserve_port();
  const int port = port_of(reserved);
  const Marks marks;
  const TeamWork team = hanging(marks);
  Process rank_0(0, 3, port, team), one(1, 3, port, team), other(1, 3, port, team);
  while (!ended(one.id()) && !ended(other.id())) usleep(20000);
  Process& second = ended(one.id()) ? one : other;
  BOOST_TEST(second.wait() == static_cast<int>(ExitCode::missing));
  BOOST_TEST(contains(second.text(), "a second rank 1"), second.text());
}

}  // namespace rehearse
