#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "launch/run_ranks.hpp"
#include "server/peer_error.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(launch_ranks_test)
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

/// A run that fails must be over long before its slowest rank, which never is, however busy the
/// machine.
constexpr seconds kBound{100};
/// Where nobody has anything to say any more.
constexpr std::chrono::milliseconds kShort{200};

[[noreturn]] void hang() {
  for (;;) sleep(1000);
}

struct Failure {
  std::string text = "no error";
  ExitCode code = ExitCode::success;
  Clock::duration took{};
};

Failure failure_of(int nproc, const std::function<std::string(const RankEnvironment&)>& work,
                   const RunLimits& limits = {}) {
  const auto begin = Clock::now();
  Failure failure;
  try {
    collect_from_ranks(nproc, work, limits);
  } catch (const Error& error) {
    failure.text = error.what();
    failure.code = error.code();
  }
  failure.took = Clock::now() - begin;
  return failure;
}

/// Ended, whether or not somebody has asked for its end yet.
bool ended(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string id, name, state = "Z";
  file >> id >> name >> state;
  return state == "Z";
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_rank_knows_itself_and_its_text_comes_back) {
  const std::string large(300000, 'x');  // more than a pipe holds
  const auto texts = collect_from_ranks(3, [&](const RankEnvironment& ranks) {
    return fmt::format("{} {} {} {}", ranks.rank, ranks.world_size, ranks.local_rank, large);
  });
  BOOST_REQUIRE(texts.size() == 3);
  for (int rank = 0; rank < 3; ++rank) {
    BOOST_TEST(texts[static_cast<std::size_t>(rank)] ==
               fmt::format("{} 3 {} {}", rank, rank, large));
  }
}

BOOST_AUTO_TEST_CASE(a_killed_rank_ends_the_run_in_bounded_time_and_is_named) {
  const auto failure = failure_of(3,
                                  [](const RankEnvironment& ranks) -> std::string {
                                    if (ranks.rank == 1) kill(getpid(), SIGKILL);
                                    hang();
                                  },
                                  {.grace = kShort});
  BOOST_TEST(failure.text ==
             "error: rank 1 of 3 was ended by signal 9 (Killed); the others were stopped");
  BOOST_TEST((failure.took < kBound));
}

BOOST_AUTO_TEST_CASE(the_killed_rank_is_the_cause_even_when_a_peer_complains_first) {
  const auto failure = failure_of(2, [](const RankEnvironment& ranks) -> std::string {
    if (ranks.rank == 0) throw MissingError("error: connection closed by peer");
    usleep(50000);
    kill(getpid(), SIGKILL);
    hang();
  });
  BOOST_TEST(failure.text.find("rank 1 of 2 was ended by signal 9") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_a_rank_threw_is_the_cause_even_when_a_peer_lost_it_first) {
  const auto failure = failure_of(2, [](const RankEnvironment& ranks) -> std::string {
    if (ranks.rank == 0) throw PeerError("error: connection closed by peer");
    usleep(50000);
    throw InputError("error: no such model");
  });
  BOOST_TEST(failure.text == "error: no such model (in rank 1 of 2)");
}

BOOST_AUTO_TEST_CASE(an_error_of_a_rank_keeps_its_code_and_text) {
  const auto failure = failure_of(2,
                                  [](const RankEnvironment& ranks) -> std::string {
                                    if (ranks.rank == 0) throw InputError("error: no such model");
                                    hang();
                                  },
                                  {.grace = kShort});
  BOOST_TEST(failure.text == "error: no such model (in rank 0 of 2)");
  BOOST_TEST((failure.code == ExitCode::input));
  BOOST_TEST((failure.took < kBound));
}

BOOST_AUTO_TEST_CASE(a_rank_that_leaves_with_success_in_the_middle_has_failed) {
  const auto failure = failure_of(2, [](const RankEnvironment& ranks) -> std::string {
    if (ranks.rank == 1) _exit(0);
    return "done";
  });
  BOOST_TEST(failure.text.find("rank 1 of 2 left with code 0 in the middle") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(ranks_that_hang_are_stopped_at_the_total_limit) {
  const auto failure =
      failure_of(2, [](const RankEnvironment&) -> std::string { hang(); }, {.total = seconds(1)});
  BOOST_TEST(failure.text == "error: the ranks did not end within 1 s and were stopped");
  BOOST_TEST((failure.code == ExitCode::stuck));
  BOOST_TEST((failure.took < kBound));
}

BOOST_AUTO_TEST_CASE(no_rank_outlives_a_killed_parent) {
  const auto file =
      std::filesystem::temp_directory_path() / fmt::format("rehearse-orphan-{}", getpid());
  const pid_t parent = fork();
  if (parent == 0) {
    collect_from_ranks(1, [&](const RankEnvironment&) -> std::string {
      std::ofstream(file) << getpid() << std::endl;
      hang();
    });
  }
  pid_t rank = 0;
  while (rank == 0) {
    usleep(20000);
    std::ifstream(file) >> rank;
  }
  BOOST_TEST(!ended(rank));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  for (const auto begin = Clock::now(); !ended(rank) && Clock::now() - begin < kBound;) {
    usleep(20000);
  }
  BOOST_TEST(ended(rank));
  std::filesystem::remove(file);
}

BOOST_AUTO_TEST_CASE(the_meeting_folder_is_removed) {
  const auto paths = collect_from_ranks(1, [](const RankEnvironment& ranks) {
    std::ofstream(ranks.store_file) << "x";
    return ranks.store_file;
  });
  BOOST_TEST(!std::filesystem::exists(std::filesystem::path(paths[0]).parent_path()));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
