// The update log as a file: what is written is read again, and what no server can have done is
// refused.
#include "convergence/update_file.hpp"

#include <unistd.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "base/error.hpp"
#include "config/whole_file.hpp"

using namespace rehearse;
namespace data = boost::unit_test::data;

BOOST_AUTO_TEST_SUITE(update_file_test)
namespace {

const std::filesystem::path kFile =
    std::filesystem::temp_directory_path() / ("updates_" + std::to_string(getpid()) + ".csv");

RunUpdates read_text(const std::string& text) {
  write_whole_file(kFile, text);
  try {
    RunUpdates run = read_updates(kFile);
    std::filesystem::remove(kFile);
    return run;
  } catch (...) {
    std::filesystem::remove(kFile);
    throw;
  }
}

const std::string kHead =
    "# rehearse.updates/1 workers=3 warmup=2\n"
    "worker,iteration,version_read,version_applied,staleness,applied_s\n";

struct Wrong {
  std::string text, message;  ///< without the file's name
};
std::ostream& operator<<(std::ostream& out, const Wrong& wrong) { return out << wrong.message; }

const std::vector<Wrong> kWrong = {
    {"",
     ":1:1: error: expected \"# rehearse.updates/1 workers=...\"\n\n^\nremedy: rehearse run "
     "SCENARIO --updates FILE and rehearse-calibrate step write such files"},
    {"# rehearse.updates/1 warmup=2\n",
     ":1:1: error: workers=... is missing\n# rehearse.updates/1 warmup=2\n^"},
    {"# rehearse.updates/1 workers=0\n",
     ":1:30: error: expected a whole number from 1 to 1000000; got \"0\"\n"
     "# rehearse.updates/1 workers=0\n                             ^"},
    {"# rehearse.updates/1 workers=2 speed=1\n",
     ":1:32: error: unknown key \"speed\"\n# rehearse.updates/1 workers=2 speed=1\n"
     "                               ^"},
    {"# rehearse.updates/1 workers=2 outer_momentum=0.9\n",
     ":1:1: error: outer_learning_rate, outer_momentum and outer_nesterov stand together\n"
     "# rehearse.updates/1 workers=2 outer_momentum=0.9\n^"},
    {"# rehearse.updates/1 workers=2 outer_momentum=1\n",
     ":1:47: error: expected a number from 0 to less than 1; got \"1\"\n"
     "# rehearse.updates/1 workers=2 outer_momentum=1\n" +
         std::string(46, ' ') + "^"},
    {"# rehearse.updates/1 workers=2\nworker,iteration\n",
     ":2:1: error: expected the columns "
     "worker,iteration,version_read,version_applied,staleness,applied_s\nworker,iteration\n^"},
    {kHead,
     ":2:1: error: no update below the columns\n"
     "worker,iteration,version_read,version_applied,staleness,applied_s\n^"},
    {kHead + "0,0,0,0,0\n", ":3:9: error: expected 6 cells\n0,0,0,0,0\n        ^"},
    {kHead + "0,0,0,0,0,0.1,7\n", ":3:11: error: expected 6 cells\n0,0,0,0,0,0.1,7\n          ^"},
    {kHead + "3,0,0,0,0,0.1\n",
     ":3:1: error: expected a whole number from 0 to 2; got \"3\"\n3,0,0,0,0,0.1\n^"},
    {kHead + "0,0,1,0,0,0.1\n",
     ":3:5: error: read a version that was not there yet\n0,0,1,0,0,0.1\n    ^"},
    {kHead + "0,0,0,0,1,0.1\n",
     ":3:9: error: expected version_applied - version_read = 0; got 1\n0,0,0,0,1,0.1\n        ^"},
    {kHead + "0,0,0,1,1,0.1\n",
     ":3:7: error: expected 0, as the first update's\n0,0,0,1,1,0.1\n      ^"},
    {kHead + "0,0,0,0,0,0.1\n1,0,0,2,2,0.1\n",
     ":4:7: error: expected 0 or 1, as updates are in order\n1,0,0,2,2,0.1\n      ^"},
    {kHead + "0,4,0,0,0,0.1\n0,4,0,1,1,0.1\n",
     ":4:3: error: worker 0 was in iteration 4 before\n0,4,0,1,1,0.1\n  ^"},
    {kHead + "0,0,0,0,0,0.2\n1,0,0,1,1,0.1\n",
     ":4:11: error: applied before the update above it\n1,0,0,1,1,0.1\n          ^"},
    {kHead + "0,0,0,0,0,nan\n",
     ":3:11: error: expected seconds, 0 or more; got \"nan\"\n0,0,0,0,0,nan\n          ^"},
    {kHead + "0,-1,0,0,0,0.1\n",
     ":3:3: error: expected a whole number from 0 to 9007199254740992; got \"-1\"\n"
     "0,-1,0,0,0,0.1\n  ^"},
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_log_that_is_written_is_read_again) {
  RunUpdates run{.workers = 3,
                 .warmup = 2,
                 .mitigation = {.staleness_bound = 4,
                                .backup_workers = 1,
                                .warmup_rounds = 5,
                                .local_steps = 8},
                 .updates = {{2, 0, 0, 0, Seconds(0.5)}, {0, 0, 0, 0, Seconds(0.5)}}};
  run.updates.push_back({2, 7, 0, 1, Seconds(1.25)});
  const std::string text = to_csv(run);
  BOOST_TEST(text ==
             "# rehearse.updates/1 workers=3 warmup=2 staleness_bound=4 backup_workers=1 "
             "warmup_rounds=5 local_steps=8\n"
             "worker,iteration,version_read,version_applied,staleness,applied_s\n"
             "2,0,0,0,0,0.500000000\n0,0,0,0,0,0.500000000\n2,7,0,1,1,1.250000000\n");
  BOOST_TEST(to_csv(read_text(text)) == text);
}

BOOST_AUTO_TEST_CASE(a_log_says_what_its_outer_optimizer_is) {
  for (const OuterSgd outer : {OuterSgd{0.7, 0.9, true}, OuterSgd{1.0 / 3, 0, false}}) {
    const RunUpdates run{.workers = 1,
                         .warmup = 0,
                         .mitigation = {.outer = outer},
                         .updates = {{0, 0, 0, 0, Seconds(1)}}};
    BOOST_TEST((read_text(to_csv(run)).mitigation.outer == outer));
  }
  BOOST_TEST(!read_text(kHead + "0,0,0,0,0,0.1\n").mitigation.outer);
}

BOOST_DATA_TEST_CASE(what_no_server_can_have_done_is_refused_with_its_place, data::make(kWrong),
                     wrong) {
  const auto says = [&](const InputError& error) {
    BOOST_TEST(error.what() == kFile.string() + wrong.message);
    return true;
  };
  BOOST_CHECK_EXCEPTION(read_text(wrong.text), InputError, says);
}

BOOST_AUTO_TEST_CASE(a_missing_file_is_missing) {
  BOOST_CHECK_THROW(read_updates("no_such_folder/updates.csv"), MissingError);
}

BOOST_AUTO_TEST_CASE(percentiles_of_staleness_are_nearest_ranks) {
  // 98 updates that are not stale, one by 3 and one by 9: half are at most 0, 99 of 100 at most 3.
  UpdateLog log;
  for (std::uint64_t i = 0; i < 100; ++i) log.push_back({0, i, i, i, Seconds(0)});
  log[50].version_read -= 3;
  log[60].version_read -= 9;
  const StalenessSummary summary = summarize_staleness(log);
  BOOST_TEST(summary.p50 == 0u);
  BOOST_TEST(summary.p99 == 3u);
  BOOST_TEST(summary.max == 9u);
  BOOST_TEST(std::abs(summary.mean - 0.12) < 1e-9);
}

BOOST_AUTO_TEST_SUITE_END()
