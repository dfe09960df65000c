#include "study/result_store.hpp"

#include <sys/resource.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <fstream>

#include "base/child_process.hpp"
#include "fixtures.hpp"
#include "study/collect.hpp"
#include "study/file_lock.hpp"
#include "study/study_view.hpp"
#include "study/take_up.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(result_store_test)
namespace {

const StudyIdentity kIdentity{"p 1", "study", "about it", "base.yaml", {"a", "b"}};
const std::vector<StudyPoint> kPoints = {{{"1", "x"}, "k1"}, {{"2", "y"}, "k2"}};
const Outcome kReport{ExitCode::success, R"({"step_time_s":1})"};
const Outcome kFailure{ExitCode::stuck, "it waits\nfor ever"};

/// All that a store holds.
std::string contents(const ResultStore& store) {
  std::string text;
  store.for_each([&](const std::string& key, const Outcome& outcome) {
    text += key + "=" + std::to_string(static_cast<int>(outcome.code)) + outcome.text + "\n";
  });
  return text;
}

void write_shard(const std::filesystem::path& file, const StudyIdentity& identity,
                 const std::vector<std::pair<std::string, Outcome>>& outcomes) {
  ResultStore store(file);
  store.describe(identity, kPoints);
  for (const auto& [key, outcome] : outcomes) store.store(key, outcome);
}

BOOST_AUTO_TEST_CASE(what_was_stored_is_there_for_the_next_process) {
  const Scratch scratch;
  write_shard(scratch / "r.sqlite", kIdentity, {{"k2", kReport}, {"k1", kFailure}});
  const ResultStore again(scratch / "r.sqlite");
  BOOST_TEST((again.identity() == kIdentity));
  BOOST_TEST((again.points() == kPoints));
  BOOST_TEST((again.find("k2") == kReport));
  BOOST_TEST((again.find("k1") == kFailure));
  BOOST_TEST(!again.find("k3"));
}

BOOST_AUTO_TEST_CASE(the_order_of_storing_leaves_no_trace) {
  const Scratch scratch;
  write_shard(scratch / "a", kIdentity, {{"k2", kReport}, {"k1", kFailure}});
  write_shard(scratch / "b", kIdentity, {{"k1", kReport}, {"k1", kFailure}, {"k2", kReport}});
  BOOST_TEST(contents(ResultStore(scratch / "a")) == contents(ResultStore(scratch / "b")));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_no_database_is_refused) {
  const Scratch scratch;
  const auto file = scratch.write("r", std::string(5000, 'x'));
  BOOST_TEST(scratch.anonymous(error_from([&] { ResultStore store(file); })) ==
             "SCRATCH/r: error: not a file of results: file is not a database\n"
             "remedy: remove it, or give another --output");
}

BOOST_AUTO_TEST_CASE(a_file_of_another_version_is_refused) {
  const Scratch scratch;
  {
    SQLite::Database(scratch / "r", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
        .exec("PRAGMA user_version = 7");
  }
  BOOST_TEST(scratch.anonymous(error_from([&] {
    ResultStore store(scratch / "r");
  })) == "SCRATCH/r: error: results in form 7, of another version of rehearse; this program reads "
         "form 2\nremedy: take the program that wrote it, or give another --output");
}

BOOST_AUTO_TEST_CASE(somebody_else_s_database_is_refused) {
  const Scratch scratch;
  {
    SQLite::Database(scratch / "r", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
        .exec("CREATE TABLE t (x)");
  }
  BOOST_TEST(scratch.anonymous(error_from([&] { ResultStore store(scratch / "r"); })) ==
             "SCRATCH/r: error: another program's database; this program reads form 2\n"
             "remedy: take the program that wrote it, or give another --output");
}

/// A store with something done to it.
std::filesystem::path damaged(const Scratch& scratch, const std::string& sql) {
  write_shard(scratch / "r", kIdentity, {{"k1", kReport}, {"k2", kFailure}});
  SQLite::Database(scratch / "r", SQLite::OPEN_READWRITE).exec(sql);
  return scratch / "r";
}

const char* const kRemedy = "\nremedy: --fresh simulates all anew; --output FOLDER keeps this file";

BOOST_AUTO_TEST_CASE(a_row_that_is_not_what_was_written_is_damage) {
  for (const auto& [sql, what] :
       {std::pair("UPDATE points SET labels = '[\"3\",\"x\"]'", "point 1"),
        std::pair("UPDATE points SET key = 'k2' WHERE point = 1", "point 1"),
        std::pair("DELETE FROM points WHERE point = 2", "the list of points"),
        std::pair("UPDATE study SET value = '[\"a\",\"c\"]' WHERE name = 'axes'",
                  "what it says of the study (axes)"),
        std::pair("UPDATE results SET text = '{\"step_time_s\":2}'", "the result k1"),
        std::pair("UPDATE results SET text = '{\"a\":'", "the result k1"),
        std::pair("UPDATE results SET code = 3 - code", "the result k1")}) {
    const Scratch scratch;
    const ResultStore store(damaged(scratch, sql));
    const std::string said = scratch.anonymous(error_from([&] {
      store.points();
      store.find("k1");
    }));
    BOOST_TEST(said.starts_with(std::string("SCRATCH/r: error: ") + what + " is damaged: "), said);
    BOOST_TEST(said.ends_with(kRemedy), said);
  }
}

// Whichever byte a disk loses: an error, a row that is no longer found, or what was written.
BOOST_AUTO_TEST_CASE(a_changed_byte_never_gives_another_answer) {
  const Scratch scratch;
  write_shard(scratch / "r", kIdentity, {{"k1", kReport}, {"k2", kFailure}});
  std::ifstream stream(scratch / "r", std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(stream), {});
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (whole[at] == 0 && at % 61 != 0) continue;  // pages are mostly empty
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ static_cast<char>(1U << (at % 7)));
    const auto file = scratch.write("changed", changed);
    try {
      const ResultStore store(file);
      BOOST_TEST((store.identity() == kIdentity), "byte " << at);
      BOOST_TEST((store.points() == kPoints), "byte " << at);
      for (const auto& [key, outcome] : {std::pair("k1", kReport), std::pair("k2", kFailure)}) {
        const auto found = store.find(key);
        BOOST_TEST((!found || found == outcome), "byte " << at);
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  BOOST_TEST(refused > 100);
}

BOOST_AUTO_TEST_CASE(a_report_without_its_figures_is_damage_to_the_table) {
  const Scratch scratch;
  write_shard(scratch / "r", kIdentity, {{"k1", {ExitCode::success, "{}"}}, {"k2", kFailure}});
  const ResultStore store(scratch / "r");
  BOOST_TEST(scratch.anonymous(error_from([&] { study_table(store, false); }))
                 .starts_with("SCRATCH/r: error: the report of point 1 is damaged: "));
}

BOOST_AUTO_TEST_CASE(a_file_of_another_program_is_neither_touched_nor_removed) {
  for (const char* sql :
       {"PRAGMA journal_mode = WAL; CREATE TABLE t (x)",
        "CREATE TABLE t (x); PRAGMA user_version = 2",
        "PRAGMA journal_mode = WAL; CREATE TABLE t (x); PRAGMA user_version = 2"}) {
    const Scratch scratch;
    { SQLite::Database(scratch / "r", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec(sql); }
    const auto bytes = [&] {
      std::ifstream stream(scratch / "r", std::ios::binary);
      return std::string(std::istreambuf_iterator<char>(stream), {});
    };
    const std::string before = bytes();
    for (const std::string& said : {error_from([&] { ResultStore store(scratch / "r"); }),
                                    error_from([&] { ResultStore::remove(scratch / "r"); })}) {
      BOOST_TEST(said.find("another program's database") != std::string::npos, said);
    }
    BOOST_TEST((bytes() == before));
  }
}

BOOST_AUTO_TEST_CASE(what_a_full_disk_refuses_is_kept_and_written_once_there_is_room) {
  const Scratch scratch;
  const std::string said = in_child_process([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    ResultStore store(scratch / "r");
    store.describe(kIdentity, kPoints);
    const rlimit small{65536, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &small);
    const Outcome large{ExitCode::success, '"' + std::string(99'998, 'x') + '"'};
    store.store("k1", large);
    std::string text = std::to_string(store.flush().size()) + " " + store.trouble();
    text += store.find("k1") == large ? "; found" : "; lost";
    const rlimit large_enough{RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &large_enough);
    store.store("k2", kReport);
    return text + "; then " + std::to_string(store.flush().size()) + store.trouble();
  });
  BOOST_TEST(scratch.anonymous(said) == "1 SCRATCH/r: error: disk I/O error; found; then 0");
  const ResultStore store(scratch / "r");
  BOOST_TEST(store.find("k1").value().text.size() == 100'000);
  BOOST_TEST((store.find("k2") == kReport));
}

// The first page is written first: killed there, the file is shorter than its head says.
BOOST_AUTO_TEST_CASE(a_writer_that_is_killed_within_a_commit_loses_only_that_commit) {
  const Scratch scratch;
  write_shard(scratch / "r", kIdentity, {{"k1", kReport}});
  const auto size = std::filesystem::file_size(scratch / "r");
  BOOST_CHECK_THROW(in_child_process([&]() -> std::string {
                      ResultStore store(scratch / "r");
                      const std::string large(6000, 'x');
                      std::signal(SIGXFSZ, SIG_DFL);
                      const rlimit small{size, RLIM_INFINITY};
                      setrlimit(RLIMIT_FSIZE, &small);
                      store.store("k2", {ExitCode::success, large});
                      return "not killed";
                    }),
                    Error);
  BOOST_TEST(std::filesystem::file_size((scratch / "r").string() + "-journal") > 0);
  const ResultStore store(scratch / "r");
  BOOST_TEST((store.find("k1") == kReport));
  BOOST_TEST(!store.find("k2"));
}

BOOST_AUTO_TEST_CASE(a_second_process_is_told_who_has_the_lock) {
  const Scratch scratch;
  const FileLock lock(scratch / "lock");
  const std::string said =
      in_child_process([&] { return error_from([&] { FileLock second(scratch / "lock"); }); });
  BOOST_TEST(scratch.anonymous(said) ==
             "SCRATCH: error: another rehearse (process " + std::to_string(getpid()) +
                 ") is at work here\nremedy: wait for it, or give another --output");
}

BOOST_AUTO_TEST_CASE(shards_make_the_whole_in_any_order) {
  const Scratch scratch;
  write_shard(scratch / "a", kIdentity, {{"k1", kReport}});
  write_shard(scratch / "b", kIdentity, {{"k2", kFailure}});
  write_shard(scratch / "both", kIdentity, {{"k2", kFailure}, {"k1", kReport}});
  ResultStore forth(scratch / "forth"), back(scratch / "back");
  collect(forth, {scratch / "a", scratch / "b"});
  collect(back, {scratch / "b", scratch / "a"});
  const std::string whole = contents(ResultStore(scratch / "both"));
  BOOST_TEST(contents(forth) == whole);
  BOOST_TEST(contents(back) == whole);
  BOOST_TEST((forth.identity() == kIdentity));
  BOOST_TEST((back.points() == kPoints));
}

BOOST_AUTO_TEST_CASE(shards_of_another_program_are_refused) {
  const Scratch scratch;
  StudyIdentity other = kIdentity;
  other.program = "p 2";
  write_shard(scratch / "a", kIdentity, {{"k1", kReport}});
  write_shard(scratch / "b", other, {{"k2", kReport}});
  ResultStore target(scratch / "t");
  BOOST_TEST(scratch.anonymous(error_from([&] {
    collect(target, {scratch / "a", scratch / "b"});
  })) == "SCRATCH/b: error: its program is not that of the others: \"p 2\", not \"p 1\"");
}

BOOST_AUTO_TEST_CASE(shards_that_disagree_are_a_bug) {
  const Scratch scratch;
  write_shard(scratch / "a", kIdentity, {{"k1", kReport}});
  write_shard(scratch / "b", kIdentity, {{"k1", {ExitCode::success, "{}"}}});
  ResultStore target(scratch / "t");
  BOOST_CHECK_THROW(collect(target, {scratch / "a", scratch / "b"}), InternalError);
}

BOOST_AUTO_TEST_CASE(a_result_replaces_a_failure_of_another_shard) {
  const Scratch scratch;
  write_shard(scratch / "a", kIdentity, {{"k1", {ExitCode::missing, "killed"}}});
  write_shard(scratch / "b", kIdentity, {{"k1", kReport}});
  ResultStore target(scratch / "t");
  collect(target, {scratch / "a", scratch / "b"});
  BOOST_TEST((target.find("k1") == kReport));
}

BOOST_AUTO_TEST_CASE(what_is_there_is_kept_unless_one_begins_anew) {
  const Scratch scratch;
  write_shard(scratch / "r", kIdentity, {{"k1", kReport}});
  std::ofstream(scratch / "results.csv.7.tmp") << "killed";
  BOOST_TEST(LockedStore(scratch / "r", scratch / "results.csv", false)->find("k1").has_value());
  BOOST_TEST(!std::filesystem::exists(scratch / "results.csv.7.tmp"));
  BOOST_TEST(!LockedStore(scratch / "r", "", true)->find("k1").has_value());
}

BOOST_AUTO_TEST_CASE(views_count_and_show_failures_and_what_is_missing) {
  const Scratch scratch;
  write_shard(scratch / "r", kIdentity, {{"k2", kFailure}});
  const ResultStore store(scratch / "r");
  const StudyCount count = count_points(store);
  BOOST_TEST(count.points == 2);
  BOOST_TEST(count.failed == 1);
  BOOST_TEST(count.missing == 1);
  BOOST_TEST(study_table(store, false) ==
             "No point has a result.\nOf 2 points 2 have no result.\n\nabout it\n\n"
             "point  a  b\n"
             "    1  1  x  not there yet\n"
             "    2  2  y  failed: it waits\n");
  const std::string csv = study_csv(store);
  BOOST_TEST(
      csv.starts_with("point,vary.a,vary.b,exit_code,error,schema,scenario,description,model,"));
  BOOST_TEST(csv.find("\n2,2,y,3,it waits,,base.yaml,about it,,") != std::string::npos);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
