#include "validation/recorded.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <functional>

#include "base/data_folder.hpp"
#include "fixtures.hpp"

using namespace fixtures;
namespace data = boost::unit_test::data;

BOOST_AUTO_TEST_SUITE(recorded_test)
namespace {

/// Reads the text as a recorded run that a case names.
RecordedRun read(const std::string& text) {
  const Scratch folder;
  folder.write("recorded/run.json", text);
  const auto file = folder.write("cases.yaml", "recorded: recorded/run.json\n");
  return read_recorded(Document::load(file)->root().as_map().require("recorded"));
}

/// The error of reading it.
std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

BOOST_AUTO_TEST_CASE(the_distance_of_two_distributions_is_that_worked_out_by_hand) {
  const StalenessHistogram a = {{0, 1}, {1, 1}, {2, 2}};  // at most 0, 1, 2: 0.25, 0.5, 1
  const StalenessHistogram b = {{0, 2}, {2, 1}, {5, 1}};  // 0.5, 0.5, 0.75
  BOOST_TEST(distance(a, b) == 0.25);
  BOOST_TEST(distance(b, a) == 0.25);
  BOOST_TEST(mean(a) == 1.25);
  BOOST_TEST(updates(b) == 4u);
}

BOOST_AUTO_TEST_CASE(distances_run_from_equal_shares_to_nothing_in_common) {
  BOOST_TEST(distance({{1, 2}, {3, 6}}, {{1, 1}, {3, 3}}) == 0);
  BOOST_TEST(distance({{0, 5}}, {{1, 7}, {9, 1}}) == 1);
}

BOOST_AUTO_TEST_CASE(the_step_time_is_the_mean_of_the_ranks_medians) {
  nlohmann::json report = step_report();
  report["per_rank"][1]["step_times_s"] = {0.4, 0.5, 3.0};
  const RecordedRun run = read(report.dump());
  BOOST_TEST(run.step_time.value() ==
             0.35);  // of 0.2 and 0.5; the median of all would be 0.3 or 0.4
  BOOST_TEST(run.ranks == 2u);
  BOOST_TEST(run.allocated_peak.value() == 2048);
  BOOST_TEST(mean(run.staleness) == 1);
}

BOOST_AUTO_TEST_CASE(a_rank_that_only_serves_is_no_rank_that_trains) {
  nlohmann::json report = step_report();
  report["per_rank"][1]["step_times_s"] = nlohmann::json::array();
  const RecordedRun run = read(report.dump());
  BOOST_TEST(run.ranks == 1u);
  BOOST_TEST(run.step_time.value() == 0.2);
  BOOST_TEST(run.allocated_peak.value() == 1024);
}

BOOST_AUTO_TEST_CASE(what_the_calibrator_writes_is_read) {
  const std::filesystem::path folder = data_folder() / "tests/data/validation";
  const auto document = Document::load(folder / "cases.yaml");
  const auto cases = document->root().as_map().require("cases").as_list();
  const RecordedRun run = read_recorded(cases.at(0).as_map().require("recorded"));
  BOOST_TEST(run.strategy == "ps-async");
  BOOST_TEST(run.model == "small_mlp");
  BOOST_TEST(run.ranks == 3u);
  BOOST_TEST(run.batch == 4);
  BOOST_TEST(updates(run.staleness) > 0u);
}

struct Wrong {
  const char* what;
  std::function<void(nlohmann::json&)> change;
  const char* said;
};
std::ostream& operator<<(std::ostream& stream, const Wrong& wrong) { return stream << wrong.what; }

const std::vector<Wrong> kWrong = {
    {"another schema", [](auto& report) { report["schema"] = "rehearse.report/1"; },
     "expected the schema rehearse.step/1"},
    {"no schema", [](auto& report) { report.erase("schema"); }, "expected the schema"},
    {"not a map",
     [](auto& report) {
       report = {1, 2};
     },
     "expected the schema"},
    {"no model", [](auto& report) { report.erase("model"); }, "key 'model' not found"},
    {"no ranks", [](auto& report) { report["per_rank"] = nlohmann::json::array(); },
     "no measured step"},
    {"no raw steps", [](auto& report) { report["per_rank"][0].erase("step_times_s"); },
     "key 'step_times_s' not found"},
    {"a step of no time", [](auto& report) { report["per_rank"][0]["step_times_s"] = {0.0}; },
     "took no time"},
    {"a server without staleness", [](auto& report) { report.erase("staleness"); },
     "no staleness.histogram"},
    {"no update",
     [](auto& report) {
       report["staleness"]["histogram"] = {{"0", 0}};
     },
     "no staleness.histogram"},
    {"staleness in words",
     [](auto& report) {
       report["staleness"]["histogram"] = {{"old", 1}};
     },
     "lacks what a report"},
};

BOOST_DATA_TEST_CASE(a_report_that_is_not_whole_is_refused_where_it_is_named, data::make(kWrong),
                     wrong) {
  nlohmann::json report = step_report();
  wrong.change(report);
  const std::string error = error_of(report.dump());
  BOOST_TEST_CONTEXT(error) {
    BOOST_TEST((error.find(wrong.said) != std::string::npos));
    BOOST_TEST((error.find("cases.yaml:1:11: error: recorded:") != std::string::npos));
    BOOST_TEST((error.find("remedy: measure it again") != std::string::npos));
  }
}

BOOST_AUTO_TEST_CASE(a_report_without_servers_needs_no_staleness) {
  nlohmann::json report = step_report("ddp");
  report.erase("staleness");
  BOOST_TEST(read(report.dump()).staleness.empty());
}

BOOST_AUTO_TEST_CASE(a_truncated_report_is_refused) {
  const std::string whole = step_report().dump();
  for (const std::size_t length : {std::size_t{0}, whole.size() / 2, whole.size() - 1}) {
    const std::string error = error_of(whole.substr(0, length));
    BOOST_TEST((error.find("is not a whole JSON file") != std::string::npos), error);
  }
}

BOOST_AUTO_TEST_CASE(a_missing_report_is_missing_and_shown_where_it_is_named) {
  const auto document = Document::parse("recorded: nowhere.json\n", "cases.yaml");
  try {
    read_recorded(document->root().as_map().require("recorded"));
    BOOST_FAIL("no error");
  } catch (const MissingError& error) {
    BOOST_TEST(std::string(error.what()).starts_with("cases.yaml:1:11: error: recorded: "));
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
