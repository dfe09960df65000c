#include "view/answer.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/memory_verdict.hpp"
#include "view/comparison.hpp"
#include "view/digits.hpp"
#include "view/views.hpp"
#include "whole_report.hpp"

BOOST_AUTO_TEST_SUITE(answer_test)

using namespace toy;
using Json = nlohmann::ordered_json;

BOOST_AUTO_TEST_CASE(a_place_is_that_of_the_second_digit_of_half_the_interval) {
  BOOST_TEST(place_of(35400, Ends<double>{27600, 45800}) == 100);
  BOOST_TEST(place_of(0.427, Ends<double>{0.334, 0.55}) == 0.01,
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(place_of(35400, std::nullopt) == 100);
  // Never finer than the fourth digit, nor coarser than the first.
  BOOST_TEST(place_of(35400, Ends<double>{35399, 35401}) == 10);
  BOOST_TEST(place_of(35400, Ends<double>{0, 9e9}) == 10000);
  BOOST_TEST(place_of(0, Ends<double>{0, 1}) == 1);
}

BOOST_AUTO_TEST_CASE(numbers_and_times_are_rounded_to_their_place) {
  BOOST_TEST(rounded(35437.0, 100) == "35,400");
  BOOST_TEST(rounded(1234567.0, 1) == "1,234,567");
  BOOST_TEST(rounded(0.3561, 0.01) == "0.36");
  BOOST_TEST(rounded(-12345.6, 1) == "-12,346");
  BOOST_TEST(rounded(Seconds(0.427), 0.01) == "430 ms");
  BOOST_TEST(rounded(Seconds(0.9999), 0.01) == "1.00 s");
  BOOST_TEST(rounded(Seconds(1.71), 0.1) == "1.7 s");
  BOOST_TEST(rounded(Seconds(61), 1) == "1 min 01 s");
  BOOST_TEST(rounded(Seconds(6965), 10) == "1 h 56 min");
  BOOST_TEST(rounded(Seconds(11 * 3600 + 485), 600) == "11 h 08 min");
  BOOST_TEST(rounded(Seconds(11 * 3600 + 485), 3600) == "11 h");
  BOOST_TEST(rounded(Seconds(81 * 3600.0), 3600) == "3 d 09 h");
  BOOST_TEST(rounded(Seconds(213.9 * 86400), 86400) == "214 d");
}

BOOST_AUTO_TEST_CASE(counts_have_the_prefixes_of_tokens) {
  BOOST_TEST(short_count(15e9) == "15 B");
  BOOST_TEST(short_count(1.5e13) == "15 T");
  BOOST_TEST(short_count(999.9e6) == "1 B");
  BOOST_TEST(short_count(512) == "512");
  BOOST_TEST(short_count(12345) == "12,300");
}

BOOST_AUTO_TEST_CASE(an_answer_says_whether_it_fits_how_fast_how_long_and_why) {
  BOOST_TEST(
      answer(whole_report()) ==
      "Fits (29 of 80 GiB a GPU, over 99 % sure). 412 ms a step, 19,400 tokens/s a GPU (31 % "
      "MFU). 500 M tokens take 1 h 56 min with what holds them up and cost 23.5 USD (22.5 to "
      "24.8). Bound by network: 62 % of the step is exposed pull and push.");
}

BOOST_AUTO_TEST_CASE(an_answer_without_a_length_and_a_price_gives_the_steps_interval) {
  Report report = whole_report();
  report.train_time.reset();
  report.cost.reset();
  report.tokens_per_s.reset();
  report.tokens_per_s_per_gpu.reset();
  report.mfu = 0.026;
  const std::string text = answer(report);
  BOOST_TEST(has(text, "412 ms (400 ms to 430 ms) a step, 77.6 samples/s (2.6 % MFU)."), text);
  BOOST_TEST(!has(text, "take"), text);
}

BOOST_AUTO_TEST_CASE(a_run_without_prices_says_so) {
  Report report = whole_report();
  report.cost->usd.reset();
  report.goodput.reset();
  BOOST_TEST(has(answer(report), "7.16 GPU hours, and nobody gives the price of some nodes."),
             answer(report));
  report.cost->prices.clear();
  BOOST_TEST(has(answer(report),
                 "500 M tokens take 1 h 47 min (1 h 44 min to 1 h 52 min); that is 7.16 GPU hours, "
                 "and nobody gives their price."),
             answer(report));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_says_how_surely_and_what_would) {
  Report report = whole_report();
  report.memory->capacity = Bytes(24.0 * 1024 * 1024 * 1024);
  report.memory->fits = false;
  BOOST_TEST(
      answer(report).starts_with("Does not fit (29 of 24 GiB a GPU, over 99 % sure). With "
                                 "enough memory: 412 ms a step"));
  FittingChange change;
  change.change = "FSDP full_shard";
  change.used = Bytes(18.0 * 1024 * 1024 * 1024);
  change.price = 0.031;
  report.memory->would_fit = std::vector<FittingChange>{change};
  BOOST_TEST(has(answer(report), "It would with FSDP full_shard (18 GiB, +3 % time a sample)."));
  report.memory->would_fit->clear();
  BOOST_TEST(has(answer(report), "No single change that was tried makes it fit."));
}

BOOST_AUTO_TEST_CASE(the_probability_of_fitting_is_that_of_a_lognormal_figure) {
  Report report = whole_report();
  const double used = report.memory->used().value();
  const auto chance = [&] { return probability_of_fitting(*memory_fit(report)); };
  // At the interval's own end it is 95 %, at the best guess one half.
  report.memory->capacity = Bytes(32.5e9);
  BOOST_TEST(*chance() == 0.95, boost::test_tools::tolerance(1e-9));
  report.memory->capacity = Bytes(used);
  BOOST_TEST(*chance() == 0.5, boost::test_tools::tolerance(1e-9));
  report.memory->capacity = Bytes(30.5e9);
  BOOST_TEST(*chance() == 0.05, boost::test_tools::tolerance(1e-9));
  report.memory->capacity = Bytes(0);
  BOOST_TEST(!chance().has_value());
}

// A GPU of 80 GB with 1 GB beside the allocator, which would like 6 GB of cache: first it has them,
// then what is left, and then tensors do not find room.
BOOST_AUTO_TEST_CASE(more_tensors_never_fit_more_surely) {
  Report report = whole_report();
  MemoryReport& memory = *report.memory;
  memory.context = Bytes(1e9);
  memory.communicators = Bytes(0);
  memory.capacity = Bytes(80e9);
  double before = 1;
  bool at_edge = false;
  for (double peak = 60e9; peak < 90e9; peak += 0.25e9) {
    memory.fits = peak <= 78.5e9;
    memory.allocated_peak = Bytes(peak);
    memory.alloc_retries = memory.fits && peak > 73e9 ? 3 : 0;
    // What is kept after the cache was given back is less than there was room for.
    const double kept = memory.alloc_retries > 0 ? 0.5 * (79e9 - peak) : 6e9;
    memory.reserved_peak = Bytes(peak + kept);
    for (auto& [key, ends] : report.intervals)
      if (key == "memory.allocated_peak_bytes") ends = {0.9 * peak, 1.1 * peak};
    const double chance = *probability_of_fitting(*memory_fit(report));
    BOOST_TEST(chance <= before, peak);
    BOOST_TEST((chance >= 0.5) == memory.fits, peak);
    at_edge |= before >= 0.5 && chance < 0.5;
    before = chance;
  }
  BOOST_TEST(at_edge);
  BOOST_TEST(before < 0.1);
}

BOOST_AUTO_TEST_CASE(the_json_has_the_answer_and_the_csv_has_not) {
  BOOST_TEST(Json::parse(to_json(whole_report()))["answer"] == answer(whole_report()));
  BOOST_TEST(!has(to_csv({whole_report()}), "answer"));
}

BOOST_AUTO_TEST_CASE(the_brief_view_begins_with_the_answer_and_is_short) {
  const std::string text = to_terminal(whole_report(), 100, false, Detail::brief);
  BOOST_TEST(text.starts_with("Fits (29 of 80 GiB"), text);
  BOOST_TEST(std::count(text.begin(), text.end(), '\n') <= 33,
             text);  // with all that a report can have
}

// --- two of them
// -----------------------------------------------------------------------------------

/// The same run at half the step time, its batch being half, too.
Report half_of(Report report) {
  report.step_time = report.step_time / 2;
  report.samples_per_s *= 1.5;
  report.global_batch /= 2;
  report.breakdown.compute = Seconds(0.1);
  return report;
}

const FigurePair& figure(const Comparison& both, const std::string& key) {
  return *std::ranges::find(both.figures, key, &FigurePair::key);
}

BOOST_AUTO_TEST_CASE(what_both_are_off_by_together_cancels) {
  const Comparison both =
      compare({.name = "a", .report = whole_report(), .shifts = {{"compute", {-0.1, 0.2}}}},
              {.name = "b",
               .report = half_of(whole_report()),
               .shifts = {{"compute", {-0.1, 0.2}}, {"communication", {-0.05, 0.1}}}});
  BOOST_TEST(both.common_errors);
  BOOST_TEST(!has(answer(both), "do not cancel"));
  const FigurePair& step = figure(both, "step_time_s");
  BOOST_TEST(*step.ratio == 0.5, boost::test_tools::tolerance(1e-12));
  BOOST_TEST(step.interval->low == 0.5 * std::exp(-0.05), boost::test_tools::tolerance(1e-12));
  BOOST_TEST(step.interval->high == 0.5 * std::exp(0.1), boost::test_tools::tolerance(1e-12));
  const FigurePair& rate = figure(both, "samples_per_s");
  BOOST_TEST(rate.interval->low == 1.5 * std::exp(-0.1), boost::test_tools::tolerance(1e-12));
  BOOST_TEST(rate.interval->high == 1.5 * std::exp(0.05), boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(without_sources_intervals_are_independent) {
  const Report report = whole_report();
  const Comparison both = compare({.name = "a", .report = report}, {.name = "b", .report = report});
  BOOST_TEST(!both.common_errors);
  BOOST_TEST(has(answer(both), "Errors that both have do not cancel"));
  const FigurePair& step = figure(both, "step_time_s");
  const double value = report.step_time.value(), low = std::log(0.4 / value),
               high = std::log(0.43 / value);
  BOOST_TEST(step.interval->high == std::exp(std::hypot(low, high)),
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(step.interval->low == std::exp(-std::hypot(low, high)),
             boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(parts_of_a_step_are_of_as_many_samples) {
  const Comparison both = compare({.name = "a", .report = whole_report()},
                                  {.name = "b", .report = half_of(whole_report())});
  BOOST_TEST(both.scale == 2);
  BOOST_TEST(both.step[0].first == 0.3);
  BOOST_TEST(both.step[0].second == 0.2);
  BOOST_TEST(has(answer(both), "For as many samples it has 100 ms more exposed communication"),
             answer(both));
  BOOST_TEST(Json::parse(to_json(both))["schema"] == "rehearse.compare/1");
}

BOOST_AUTO_TEST_CASE(settings_that_differ_are_told_and_no_others) {
  Compared first{.name = "a", .report = whole_report()}, second = first;
  first.settings = {{"cluster.nodes", "4"}, {"model.use", "toy"}};
  second.settings = {{"cluster.nodes", "8"}, {"model.use", "toy"}, {"run.steps", "2"}};
  const Comparison both = compare(first, second);
  BOOST_TEST(both.inputs.size() == 2u);
  BOOST_TEST(both.inputs[0].second == "8");
  BOOST_TEST(both.inputs[1].first == "");
}

BOOST_AUTO_TEST_SUITE_END()
