#include "study/sweep.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <fstream>

#include "fixtures.hpp"
#include "study/collect.hpp"
#include "study/content_key.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(sweep_test)
namespace {

namespace data = boost::unit_test::data;

/// A simulator whose report is the scenario itself. It leaves a line in a file each time it runs.
struct Fixture {
  Scratch scratch;
  Simulator simulator{.program = "p 1",
                      .read =
                          [](const Document& scenario) {
                            Map root = scenario.root().as_map();
                            Map cluster = root.require("cluster").as_map();
                            cluster.require("nodes").as_integer(1, 50);
                            cluster.finish();
                          },
                      .predict =
                          [this](const Document& scenario) {
                            const std::string text = canonical_text(scenario.root());
                            std::ofstream(scratch / "runs", std::ios::app) << "x";
                            if (text.find("\"13\"") != std::string::npos) throw StuckError("stuck");
                            if (text.find("\"17\"") != std::string::npos) std::raise(SIGKILL);
                            return text;
                          }};

  Fixture() { scratch.write("base.yaml", "cluster: {nodes: 4}\nrun: {seed: 1}\n"); }

  PreparedStudy study(const std::string& vary) const {
    return prepare(read_study(scratch.write("s.yaml", "scenario: base.yaml\nvary: " + vary), {}),
                   simulator);
  }

  /// How often a simulation was run.
  std::size_t runs() const {
    const auto file = scratch / "runs";
    return std::filesystem::exists(file) ? std::filesystem::file_size(file) : 0;
  }

  bool run(const PreparedStudy& prepared, const std::string& name,
           SweepOptions options = {}) const {
    ResultStore store(scratch / name);
    store.describe(prepared.identity, prepared.points);
    return sweep(prepared, simulator, store, options);
  }

  std::string contents(const std::string& name) const {
    std::string text;
    ResultStore(scratch / name).for_each([&](const std::string& key, const Outcome& outcome) {
      text += key + std::to_string(static_cast<int>(outcome.code)) + outcome.text + "\n";
    });
    return text;
  }
};

const char* const kVary = "{cluster.nodes: [1, 2, 13, 17, 99], run.seed: [1, 2, 3]}";

BOOST_DATA_TEST_CASE_F(Fixture, the_same_results_with_any_number_of_jobs, data::make({2, 4, 9}),
                       jobs) {
  const PreparedStudy prepared = study(kVary);
  run(prepared, "one");
  run(prepared, "many", {.limits = {.jobs = static_cast<std::size_t>(jobs)}, .shard = {}});
  BOOST_TEST(contents("one") == contents("many"));
}

BOOST_FIXTURE_TEST_CASE(a_failure_is_its_point_s_and_the_others_go_on, Fixture) {
  const PreparedStudy prepared = study(kVary);
  BOOST_TEST(run(prepared, "r"));
  const ResultStore store(scratch / "r");
  const auto outcome = [&](std::size_t point) {
    return store.find(prepared.points[point - 1].key).value();
  };
  BOOST_TEST(outcome(1).text == R"({"cluster":{"nodes":"1"},"run":{"seed":"1"}})");
  BOOST_TEST((outcome(7) == Outcome{ExitCode::stuck, "stuck"}));
  BOOST_TEST((outcome(10).code == ExitCode::internal));
  BOOST_TEST(outcome(10).text.starts_with("internal error: a child process died of signal 9"));
  BOOST_TEST((outcome(13).code == ExitCode::input));
  BOOST_TEST(scratch.anonymous(outcome(13).text) ==
             "SCRATCH/s.yaml:2:38: error: cluster.nodes: expected a whole number from 1 to 50; got "
             "\"99\"\n"
             "vary: {cluster.nodes: [1, 2, 13, 17, 99], run.seed: [1, 2, 3]}\n"
             "                                     ^");
  BOOST_TEST(runs() == 12);
}

BOOST_FIXTURE_TEST_CASE(what_is_known_is_not_simulated_again_but_what_was_killed_is, Fixture) {
  const PreparedStudy prepared = study(kVary);
  run(prepared, "r");
  run(prepared, "r");
  BOOST_TEST(runs() == 12 + 3);  // those that die of a signal
}

BOOST_FIXTURE_TEST_CASE(points_with_the_same_content_are_simulated_once, Fixture) {
  const PreparedStudy prepared =
      study("{cluster: {values: [{nodes: 4}, {nodes: 4}], labels: [a, b]}, run.seed: [1, 2]}");
  SweepProgress last;
  run(prepared, "r",
      {.limits = {}, .shard = {}, .progress = [&](const SweepProgress& now) { last = now; }});
  BOOST_TEST(runs() == 2);
  BOOST_TEST(last.done == 4);
  BOOST_TEST(last.all == 4);
  BOOST_TEST(last.simulated == 2);
}

BOOST_FIXTURE_TEST_CASE(a_study_that_grows_keeps_what_is_there, Fixture) {
  run(study("{cluster.nodes: [1, 2]}"), "r");
  run(study("{cluster.nodes: [1, 2, 3]}"), "r");
  BOOST_TEST(runs() == 3);
}

BOOST_FIXTURE_TEST_CASE(another_study_takes_results_from_the_cache, Fixture) {
  ResultStore cache(scratch / "cache");
  const SweepOptions options{.limits = {}, .shard = {}, .cache = &cache};
  run(study("{cluster.nodes: [1, 13]}"), "a", options);
  run(study("{cluster.nodes: [13, 1, 2]}"), "b", options);
  BOOST_TEST(runs() == 2 + 2);  // failures are not shared
}

BOOST_FIXTURE_TEST_CASE(shards_together_are_the_whole, Fixture) {
  const PreparedStudy prepared = study(kVary);
  run(prepared, "whole");
  ResultStore target(scratch / "target");
  for (std::size_t i = 1; i <= 4; ++i) {
    const std::string name = "shard" + std::to_string(i);
    run(prepared, name, {.limits = {}, .shard = {.index = i, .count = 4}});
    collect(target, {scratch / name});
  }
  BOOST_TEST(contents("target") == contents("whole"));
  BOOST_TEST(runs() == 2 * 12);
}

BOOST_FIXTURE_TEST_CASE(a_sweep_that_is_stopped_keeps_what_it_has, Fixture) {
  const PreparedStudy prepared = study("{run.seed: [1, 2, 3, 4, 5, 6, 7, 8]}");
  run(prepared, "whole");
  std::size_t done = 0;
  const SweepOptions options{.limits = {.stop = [&] { return done >= 3; }},
                             .shard = {},
                             .progress = [&](const SweepProgress& now) { done = now.done; }};
  BOOST_TEST(!run(prepared, "r", options));
  BOOST_TEST(run(prepared, "r"));
  BOOST_TEST(contents("r") == contents("whole"));
}

/// Whose scenarios read a file besides.
struct ReadingFixture : Fixture {
  ReadingFixture() {
    const auto read_file = [this](const Document&) { return read_input(scratch / "nic", 100); };
    simulator.read = [=](const Document& scenario) { read_file(scenario); };
    simulator.predict = [=](const Document& scenario) { return '"' + read_file(scenario) + '"'; };
    scratch.write("nic", "10Gbps");
  }
  Outcome first(const PreparedStudy& prepared) const {
    return ResultStore(scratch / "r").find(prepared.points.front().key).value();
  }
};

BOOST_FIXTURE_TEST_CASE(what_is_stored_was_simulated_from_what_its_key_stands_for, ReadingFixture) {
  const FilesKept kept;
  const PreparedStudy prepared = study("{run.seed: [1, 2]}");
  scratch.write("nic", "1Gbps");
  run(prepared, "r");
  BOOST_TEST(first(prepared).text == "\"10Gbps\"");
}

BOOST_FIXTURE_TEST_CASE(a_file_that_changes_under_a_sweep_is_told_and_nothing_is_final,
                        ReadingFixture) {
  const PreparedStudy prepared = study("{run.seed: [1, 2]}");
  scratch.write("nic", "1Gbps");
  run(prepared, "r");
  BOOST_TEST((first(prepared).code == ExitCode::missing));
  BOOST_TEST(!first(prepared).is_final());
  BOOST_TEST(first(prepared).text.find("has changed since its key was made") != std::string::npos);
  scratch.write("nic", "10Gbps");
  run(prepared, "r");
  BOOST_TEST(first(prepared).text == "\"10Gbps\"");
}

BOOST_FIXTURE_TEST_CASE(an_axis_that_names_no_key_makes_the_whole_study_wrong, Fixture) {
  BOOST_TEST(scratch.anonymous(error_from([&] { study("{cluster.node: [1, 2]}"); })) ==
             "SCRATCH/s.yaml:2:16: error: cluster.node: unknown key; known keys here: nodes\n"
             "vary: {cluster.node: [1, 2]}\n"
             "               ^\n"
             "remedy: did you mean \"nodes\"?");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
