#include "validation/cases.hpp"

#include <fmt/format.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "base/error.hpp"
#include "fixtures.hpp"

using namespace fixtures;
namespace data = boost::unit_test::data;

BOOST_AUTO_TEST_SUITE(cases_test)
namespace {

const std::string kPublished = "{name: p, scenario: s.yaml, metric: samples_per_s, published: 9}";

/// Reads a file of these cases, beside a recorded run.
CaseFile read(const std::string& cases, const std::string& head = "",
              const CaseChoice& choice = {}) {
  const Scratch folder;
  folder.write("run.json", step_report().dump());
  nlohmann::json ddp = step_report("ddp");
  ddp.erase("staleness");
  folder.write("ddp.json", ddp.dump());
  for (nlohmann::json& rank : ddp.at("per_rank")) {
    rank["memory"]["reserved_peak_bytes"] = 3e6 + rank.at("rank").get<double>();
  }
  folder.write("gpu.json", ddp.dump());
  return read_case_file(
      folder.write("cases.yaml", "source: somewhere\n" + head + "cases:\n" + cases), choice);
}

std::string error_of(const std::string& cases, const std::string& head = "") {
  try {
    read(cases, head);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

CaseFile read_with_unpredicted(const std::string& text) {
  const Scratch folder;
  return read_case_file(folder.write(
      "cases.yaml", "source: somewhere\nnot_predicted: " + text + "\ncases:\n  - " + kPublished));
}

std::vector<std::string> metrics_of(const ValidationCase& one) {
  std::vector<std::string> metrics;
  for (const Measurement& measurement : one.measured) metrics.push_back(measurement.metric);
  return metrics;
}

BOOST_AUTO_TEST_CASE(of_a_file_that_takes_long_a_choice_may_read_nothing) {
  const std::string head = "takes_long: true\n", cases = "  - " + kPublished + "\n";
  BOOST_TEST(read(cases, head).takes_long);
  const CaseFile left = read(cases, head, {.takes_long = false});
  BOOST_TEST(left.cases.empty());
  BOOST_TEST(left.left_out == 1u);
}

BOOST_AUTO_TEST_CASE(a_published_case_has_its_metric) {
  const CaseFile file = read("  - " + kPublished + "\n", "calibrated: two hosts at 200 Mbit/s\n");
  BOOST_TEST(file.source == "somewhere");
  BOOST_TEST(file.calibrated == "two hosts at 200 Mbit/s");
  BOOST_REQUIRE(file.cases.size() == 1u);
  BOOST_TEST(file.cases[0].group == "cases");  // the file's name
  BOOST_TEST(file.cases[0].held_out);
  BOOST_TEST(file.cases[0].measured[0].metric == "samples_per_s");
  BOOST_TEST(file.cases[0].measured[0].value == 9);
}

BOOST_AUTO_TEST_CASE(a_recorded_run_gives_its_step_time_memory_and_staleness) {
  const CaseFile file = read(
      "  - {name: a, scenario: s.yaml, recorded: run.json}\n"
      "  - {name: d, scenario: s.yaml, recorded: ddp.json}\n");
  const std::vector<std::string> with_server = {"step_time_s", "staleness.mean", "staleness.ks",
                                                "memory.allocated_peak_bytes"};
  const std::vector<std::string> without = {"step_time_s", "memory.allocated_peak_bytes"};
  BOOST_TEST(metrics_of(file.cases[0]) == with_server, boost::test_tools::per_element());
  BOOST_TEST(metrics_of(file.cases[1]) == without, boost::test_tools::per_element());
  BOOST_TEST(file.cases[0].measured[0].value == 0.35);
}

BOOST_AUTO_TEST_CASE(a_caching_allocator_s_peak_is_the_largest_of_the_ranks) {
  const CaseFile file = read("  - {name: g, scenario: s.yaml, recorded: gpu.json}\n");
  const std::vector<std::string> metrics = {"step_time_s", "memory.allocated_peak_bytes",
                                            "memory.reserved_peak_bytes"};
  BOOST_TEST(metrics_of(file.cases[0]) == metrics, boost::test_tools::per_element());
  BOOST_TEST(file.cases[0].measured[2].value == 3e6 + 1);
}

BOOST_AUTO_TEST_CASE(a_file_may_have_measured_only_some_of_what_its_runs_recorded) {
  const std::string cases =
      "  - {name: a, scenario: s.yaml, recorded: ddp.json}\n  - " + kPublished + "\n";
  const CaseFile file = read(cases, "metrics: [memory.allocated_peak_bytes]\n");
  const std::vector<std::string> memory = {"memory.allocated_peak_bytes"};
  BOOST_TEST(metrics_of(file.cases[0]) == memory, boost::test_tools::per_element());
  BOOST_TEST(file.cases[1].measured[0].metric == "samples_per_s");  // is a measurement by itself
}

BOOST_AUTO_TEST_CASE(a_run_without_the_file_s_metrics_is_refused) {
  const std::string one = "  - {name: a, scenario: s.yaml, recorded: ddp.json}\n";
  const std::string none = error_of(one, "metrics: [staleness.mean]\n");
  BOOST_TEST((none.find("this run recorded none of staleness.mean") != std::string::npos), none);
  const std::string empty = error_of(one, "metrics: []\n");
  BOOST_TEST((empty.find("expected at least one metric") != std::string::npos), empty);
}

BOOST_AUTO_TEST_CASE(a_case_s_group_goes_before_the_file_s) {
  const CaseFile file =
      read("  - " + kPublished +
               "\n"
               "  - {name: b, scenario: s.yaml, recorded: run.json, group: own}\n",
           "group: testbed\n");
  BOOST_TEST(file.cases[0].group == "testbed");
  BOOST_TEST(file.cases[1].group == "own");
}

BOOST_AUTO_TEST_CASE(an_input_and_what_is_not_held_out_do_not_count) {
  const CaseFile file =
      read("  - " + kPublished +
           "\n"
           "  - {name: b, scenario: s.yaml, recorded: run.json, held_out: false}\n"
           "  - {name: c, scenario: s.yaml, recorded: run.json, input: the rate, "
           "note: cold}\n");
  BOOST_TEST(file.cases[0].held_out);
  BOOST_TEST(!file.cases[1].held_out);
  BOOST_TEST(!file.cases[2].held_out);
  BOOST_TEST((!file.cases[0].input && file.cases[1].input != file.cases[2].input));
  BOOST_TEST(file.cases[2].note == "input: the rate; cold");
}

struct Wrong {
  std::string text, said;
};
std::ostream& operator<<(std::ostream& stream, const Wrong& wrong) { return stream << wrong.said; }

const std::vector<Wrong> kWrong = {
    {"{name: b, scenario: s.yaml, metric: m, published: 1, recorded: run.json}",
     "cases.yaml:3:58: error: cases.0.recorded: a case is either published or recorded"},
    {"{name: b, scenario: s.yaml}", "cases.yaml:3:5: error: cases.0: expected what was measured"},
    {"{name: b, scenario: s.yaml, published: 1}", "the key \"metric\" is missing"},
    {"{name: b, scenario: s.yaml, metric: m, recorded: run.json}",
     "a recorded run has its own metrics"},
    {"{name: b, scenario: s.yaml, recorded: run.json, held_out: true, input: x}",
     "a case with an input is not held out"},
    {"{name: b, scenario: s.yaml, recorded: run.json, held_out: false}",
     "expected at least one case that is not an input"},
};

BOOST_DATA_TEST_CASE(a_wrong_case_is_refused_at_its_place, data::make(kWrong), wrong) {
  const std::string error = error_of("  - " + wrong.text + "\n");
  BOOST_TEST((error.find(wrong.said) != std::string::npos), error);
}

BOOST_AUTO_TEST_CASE(a_folder_stands_for_the_case_files_in_it_and_below) {
  const Scratch folder;
  const auto second = folder.write("b/runs/cases.yaml", "source: x\ncases: []\n");
  const auto first = folder.write("a.yaml", "source: x\ncases: []\n");
  folder.write("scenario.yaml", "model: {}\n");
  folder.write("plan.yaml", "cases: []\n");
  folder.write("notes.txt", "cases:\nsource:\n");
  const std::vector<std::filesystem::path> expected = {first, second};
  const auto found = case_files({folder.path()});
  BOOST_TEST((found == expected));
  BOOST_TEST((case_files({second, first}) == std::vector{second, first}));
}

BOOST_AUTO_TEST_CASE(a_folder_without_case_files_is_an_error) {
  const Scratch folder;
  BOOST_CHECK_THROW(case_files({folder.path()}), MissingError);
}

BOOST_AUTO_TEST_CASE(the_environment_says_where_shipped_cases_are) {
  const Scratch folder;
  const auto file = folder.write("cases.yaml", "source: x\ncases: []\n");
  BOOST_TEST(shipped_case_files().size() >= 2u);
  setenv("REHEARSE_VALIDATION", folder.path().c_str(), 1);
  const auto files = shipped_case_files();
  unsetenv("REHEARSE_VALIDATION");
  BOOST_TEST((files == std::vector{file}));
}

BOOST_AUTO_TEST_CASE(a_shipped_set_has_the_name_of_its_folder_or_file) {
  const Scratch folder;
  const auto first = folder.write("hosts/cases.yaml", "source: x\ncases: []\n");
  const auto second = folder.write("rows.yaml", "source: x\ncases: []\n");
  setenv("REHEARSE_VALIDATION", folder.path().c_str(), 1);
  const auto hosts = case_files({"hosts"}), rows = case_files({"rows"}), all = case_files({"all"});
  BOOST_CHECK_THROW(case_files({"host"}), InputError);
  unsetenv("REHEARSE_VALIDATION");
  BOOST_TEST((hosts == std::vector{first}));
  BOOST_TEST((rows == std::vector{second}));
  BOOST_TEST((all == std::vector{first, second}));
}

BOOST_AUTO_TEST_CASE(a_sample_is_spread_evenly_over_a_large_set_of_recorded_runs) {
  std::string five;
  for (const char* name : {"a", "b", "c", "d", "e"})
    five += fmt::format("  - {{name: {}, scenario: s.yaml, recorded: run.json}}\n", name);
  const CaseFile half = read(five, "", {.recorded = 3});
  BOOST_REQUIRE(half.cases.size() == 3u);
  BOOST_TEST(half.cases[1].name == "c");
  BOOST_TEST(half.left_out == 2u);
  BOOST_TEST(read(five, "", {.recorded = 5}).left_out == 0u);
}

BOOST_AUTO_TEST_CASE(published_cases_are_all_read) {
  std::string five;
  for (const char* name : {"a", "b", "c", "d", "e"})
    five += fmt::format("  - {{name: {}, scenario: s.yaml, metric: step_time_s, published: 1}}\n",
                        name);
  BOOST_TEST(read(five, "", {.recorded = 3}).cases.size() == 5u);
}

BOOST_AUTO_TEST_CASE(rows_are_never_seen_where_nobody_says_otherwise) {
  const auto relation = [](const std::string& line) {
    return to_string(read("  - " + kPublished + "\n", line).relation);
  };
  BOOST_TEST(relation("") == "never seen");
  BOOST_TEST(relation("relation: left out\n") == "left out");
  BOOST_TEST(relation("relation: input\n") == "input");
  BOOST_CHECK_THROW(relation("relation: known\n"), InputError);
}

BOOST_AUTO_TEST_CASE(only_what_is_asked_for_is_kept) {
  const std::string cases =
      "  - " + kPublished + "\n  - {name: b, scenario: s.yaml, recorded: run.json}\n";
  const auto kept = only_metrics({read(cases)}, {"step_time_s", "staleness.ks"});
  BOOST_REQUIRE(kept.size() == 1u);
  BOOST_REQUIRE(kept[0].cases.size() == 1u);
  BOOST_TEST(kept[0].cases[0].measured.size() == 2u);
  BOOST_TEST(only_metrics({read(cases)}, {})[0].cases.size() == 2u);
  BOOST_CHECK_THROW(only_metrics({read(cases)}, {"step_time"}), InputError);
}

BOOST_AUTO_TEST_CASE(cases_are_chosen_by_their_names_and_by_patterns_of_them) {
  const std::string cases =
      "  - " + kPublished + "\n  - {name: 'b[1]', scenario: s.yaml, recorded: run.json}\n";
  const auto names = [&](const std::vector<std::string>& asked) {
    std::string found;
    for (const CaseFile& file : only_cases({read(cases)}, asked))
      for (const ValidationCase& one : file.cases) found += one.name + " ";
    return found;
  };
  BOOST_TEST(names({}) == "p b[1] ");
  BOOST_TEST(names({"b[1]"}) == "b[1] ");  // a name is no pattern of itself
  BOOST_TEST(names({"?"}) == "p ");
  BOOST_TEST(names({"b*", "p"}) == "p b[1] ");
  BOOST_CHECK_THROW(names({"p", "c"}), InputError);
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_published_and_not_predicted_says_why) {
  const NotPredicted others =
      read_with_unpredicted("{why: no rate, cases: [{name: a, metric: accuracy, published: 0.5}]}")
          .not_predicted;
  BOOST_TEST(others.why == "no rate");
  BOOST_REQUIRE(others.cases.size() == 1);
  BOOST_TEST(others.cases[0].published == 0.5);
  BOOST_CHECK_THROW(read_with_unpredicted("{cases: [{name: a, metric: accuracy, published: 0.5}]}"),
                    InputError);
}

BOOST_AUTO_TEST_CASE(a_row_may_publish_several_numbers_and_have_rivals) {
  const CaseFile file = read(
      "  - {name: a, scenario: s.yaml, rivals: r, published: {step_time_s: 2, "
      "memory.allocated_peak_bytes: 3}}\n");
  BOOST_REQUIRE(file.cases[0].measured.size() == 2u);
  BOOST_TEST(file.cases[0].measured[0].metric == "step_time_s");
  BOOST_TEST(file.cases[0].measured[1].value == 3);
  BOOST_TEST(file.cases[0].rivals == "r");
  BOOST_CHECK_THROW(
      read("  - {name: a, scenario: s.yaml, metric: step_time_s, published: {step_time_s: 2}}\n"),
      InputError);
}

BOOST_AUTO_TEST_CASE(a_number_that_is_not_predicted_may_have_a_reason_of_its_own) {
  const NotPredicted others =
      read_with_unpredicted(
          "{why: several, cases: [{name: a, metric: m, published: 1, why: no length}]}")
          .not_predicted;
  BOOST_TEST(others.cases[0].why == "no length");
}

BOOST_AUTO_TEST_SUITE_END()
