#include "validation/summary.hpp"

#include <boost/test/unit_test.hpp>

#include "fixtures.hpp"

using namespace fixtures;

BOOST_AUTO_TEST_SUITE(summary_test)
namespace {

const auto kTolerance = boost::test_tools::tolerance(1e-12);
const Ends<double> kHolds{0.5, 1.5};
const Ends<double> kMisses{1.01, 1.5};

/// Two strategies; the errors of one: 2 %, -4 %, 12 %; of the other: 6 %.
ComparedFile four_runs() {
  ComparedFile file;
  add(file, "a", "ddp", {number("step_time_s", 0.02, kHolds)});
  add(file, "b", "ddp", {number("step_time_s", -0.04, kMisses)});
  add(file, "c", "ps asp",
      {number("step_time_s", 0.06), number("staleness.mean", -0.2, kHolds),
       number("staleness.ks", 0.11)});
  add(file, "d", "ddp", {number("step_time_s", 0.12, kHolds)});
  return file;
}

BOOST_AUTO_TEST_CASE(errors_are_summed_up_by_strategy_and_by_group) {
  const Summary summary = summarize({four_runs()});
  BOOST_REQUIRE(summary.relative.size() == 3u);
  const ErrorSummary& ddp = summary.relative[0];
  BOOST_TEST(ddp.strategy == "ddp");
  BOOST_TEST(ddp.cases == 3u);
  BOOST_TEST(ddp.mean == 0.06, kTolerance);
  BOOST_TEST(ddp.median == 0.04, kTolerance);
  BOOST_TEST(ddp.max == 0.12, kTolerance);
  BOOST_TEST(ddp.coverage.inside == 2u);
  BOOST_TEST(ddp.coverage.intervals == 3u);
  const ErrorSummary& all = summary.relative[2];
  BOOST_TEST(all.strategy == "all");
  BOOST_TEST(all.cases == 4u);
  BOOST_TEST(all.median == 0.05, kTolerance);  // between 4 and 6 %
}

BOOST_AUTO_TEST_CASE(staleness_has_lines_of_its_own) {
  const Summary summary = summarize({four_runs()});
  BOOST_REQUIRE(summary.staleness.size() == 1u);
  BOOST_TEST(summary.staleness[0].mean == 0.2, kTolerance);
  BOOST_TEST(*summary.staleness[0].largest_distance == 0.11, kTolerance);
  BOOST_TEST(summary.coverage.inside == 3u);
  BOOST_TEST(summary.coverage.intervals == 4u);
}

BOOST_AUTO_TEST_CASE(an_input_outside_of_its_own_interval_is_named) {
  ComparedFile file = four_runs();  // of which "b" is outside, and held out
  BOOST_TEST(inputs_outside({file}).empty());
  add(file, "not counted", "ddp", {number("step_time_s", -0.07, kMisses)}, false);
  add(file, "chosen", "ddp", {number("step_time_s", 0.07, kHolds)}, false);
  file.file.cases.back().input = true;
  BOOST_TEST(inputs_outside({file}).empty());
  add(file, "fitted", "ddp", {number("step_time_s", -0.07, kMisses)}, false);
  file.file.cases.back().input = true;
  // One of two intervals of 90 % misses in 19 of 100 cases, three of four in 4 of 1,000.
  BOOST_TEST(inputs_outside({file}).empty());
  for (int i = 0; i < 2; ++i) {
    add(file, "fitted", "ddp", {number("step_time_s", -0.07, kMisses)}, false);
    file.file.cases.back().input = true;
  }
  BOOST_REQUIRE(inputs_outside({file}).size() == 3u);
  BOOST_TEST(inputs_outside({file})[0].ends_with("case \"fitted\", step_time_s: error -7.0 %"));
}

BOOST_AUTO_TEST_CASE(what_is_not_held_out_counts_nowhere) {
  ComparedFile file = four_runs();
  add(file, "input", "fsdp full_shard", {number("step_time_s", 9, kMisses)}, false);
  const Summary summary = summarize({file});
  BOOST_TEST(summary.relative.size() == 3u);
  BOOST_TEST(summary.coverage.intervals == 4u);
  BOOST_TEST(beyond({file}, {.mean = {}, .max = 0.12, .staleness = {}, .distance = {}}).empty());
}

BOOST_AUTO_TEST_CASE(groups_of_several_files_are_one) {
  const Summary summary = summarize({four_runs(), four_runs()});
  BOOST_REQUIRE(summary.relative.size() == 3u);
  BOOST_TEST(summary.relative[2].cases == 8u);
}

BOOST_AUTO_TEST_CASE(memory_does_not_enter_the_group_of_times) {
  ComparedFile file = four_runs();
  add(file, "m", "ddp",
      {number("memory.allocated_peak_bytes", 0.5, std::nullopt, "testbed, memory")});
  const Summary summary = summarize({file});
  BOOST_REQUIRE(summary.relative.size() == 4u);
  BOOST_TEST(summary.relative[2].max == 0.12, kTolerance);
  BOOST_TEST(summary.relative[3].group == "testbed, memory");
}

BOOST_AUTO_TEST_CASE(cases_without_a_prediction_are_counted_as_such) {
  ComparedFile file = four_runs();
  add(file, "e", "", {});
  file.cases.back().failure = "it waits";
  BOOST_TEST(summarize({file}).failed == 1u);
  BOOST_TEST(summarize({file}).relative.size() == 3u);
}

BOOST_AUTO_TEST_CASE(bounds_on_what_no_case_has_are_named) {
  const Validation validation = {four_runs()};
  const ErrorBounds all = {.mean = 1, .max = 1, .staleness = 1, .distance = 1, .accuracy = 1};
  BOOST_TEST(without_numbers(validation, all) == std::vector<std::string>{"accuracy"},
             boost::test_tools::per_element());
  BOOST_TEST(without_numbers({}, all).size() == 4u);
  BOOST_TEST(without_numbers({}, {}).empty());
}

BOOST_AUTO_TEST_CASE(bounds_name_what_is_beyond_them) {
  const Validation validation = {four_runs()};
  const ErrorBounds tight = {.mean = 0.059, .max = 0.119, .staleness = 0.1, .distance = 0.1};
  const std::vector<std::string> expected = {
      "group \"testbed\": mean error 6.0 %, more than 5.9 %",
      "case \"c\", staleness.mean: off by -0.20 updates, more than 0.1",
      "case \"c\", staleness.ks: distance 0.110, more than 0.1",
      "case \"d\", step_time_s: error +12.0 %, more than 11.9 %"};
  BOOST_TEST(beyond(validation, tight) == expected, boost::test_tools::per_element());
  const ErrorBounds wide = {.mean = 0.061, .max = 0.121, .staleness = 0.21, .distance = 0.12};
  BOOST_TEST(beyond(validation, wide).empty());
  BOOST_TEST(beyond(validation, {}).empty());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
