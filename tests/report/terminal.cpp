#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "report/memory_verdict.hpp"
#include "view/page.hpp"
#include "view/views.hpp"
#include "whole_report.hpp"

BOOST_AUTO_TEST_SUITE(terminal_test)

using namespace toy;
namespace data = boost::unit_test::data;
using Json = nlohmann::ordered_json;

BOOST_AUTO_TEST_CASE(the_terminal_shows_the_same_numbers_with_their_units) {
  const std::string text = to_terminal(whole_report(), 80, false);
  for (const char* part : {"toy · ps ssp 3 · pair",
                           "412 ms",
                           "400 ms to 430 ms",
                           "77.6 samples/s",
                           "74.4 to 80 samples/s",
                           "22.50 to 24.75 USD",
                           "390 ms to 450 ms (5th to 95th percentile)",
                           "mean 2.25 to 2.88",
                           "allocated 27.9 GiB to 29.8 GiB",
                           "7.16 GPU hours, 23.50 USD (22.50 to 24.75 USD)",
                           "300 ms",
                           "72.8 %",
                           "50.0 ms",
                           "31.0 %",
                           "fits: 29.4 GiB of 80.0 GiB, 50.6 GiB free",
                           "14.0 GiB",
                           "backward layer3.0",
                           "largest batch that fits: 48 per GPU",
                           "mean 2.50, median 2, 99 % up to 4, max 12 updates",
                           "network: 62 %",
                           "16 ranks from a curve of 8",
                           "compute: fitted kernels",
                           "one = 1; two = 2",
                           "seed 18446744073709551615"}) {
    BOOST_TEST(has(text, part), part << "\n" << text);
  }
}

BOOST_AUTO_TEST_CASE(too_much_memory_is_told_by_how_much) {
  Report report = whole_report();
  report.memory->capacity = Bytes(25769803776);  // 24 GiB
  report.memory->fits = false;
  BOOST_TEST(
      has(to_terminal(report, 80, false), "does not fit: 29.4 GiB of 24.0 GiB, 5.36 GiB too much"));
}

BOOST_AUTO_TEST_CASE(that_it_does_not_fit_stands_before_its_time_and_its_price) {
  Report report = whole_report();
  report.memory->capacity = Bytes(25769803776);  // 24 GiB
  report.memory->fits = false;
  const std::string text = to_terminal(report, 80, false);
  BOOST_TEST(text.starts_with("Does not fit (29 of 24 GiB a GPU, over 99 % sure)."), text);
  BOOST_TEST(Json::parse(to_json(report))["memory"]["verdict"] == "does_not_fit");
}

BOOST_AUTO_TEST_CASE(what_fits_but_may_not_is_at_risk) {
  Report report = whole_report();
  report.memory->capacity = report.memory->used() + Bytes(3.0 * 1024 * 1024);
  const std::string text = to_terminal(report, 100, true);
  BOOST_TEST(has(to_terminal(report, 100, false),
                 "at risk: 29.4 GiB of 29.4 GiB, 3.00 MiB free; up to 30.3 GiB"));
  BOOST_TEST(!has(text, "\x1b[1;32mfits"), text);
  BOOST_TEST(Json::parse(to_json(report))["memory"]["verdict"] == "at_risk");
  report.memory->capacity = Bytes(32.5e9);  // the interval's very end
  BOOST_TEST(!has(to_terminal(report, 80, false), "at risk"));
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_but_may_is_at_risk_too) {
  Report report = whole_report();
  report.memory->capacity = Bytes(30.5e9);  // the interval's lower end
  report.memory->fits = false;
  BOOST_TEST(Json::parse(to_json(report))["memory"]["verdict"] == "at_risk");
  BOOST_TEST(has(to_terminal(report, 100, false), " too much; from "));
  report.memory->capacity = Bytes(30.4e9);
  BOOST_TEST(Json::parse(to_json(report))["memory"]["verdict"] == "does_not_fit");
}

// What the allocator caches it may give back: at best there is none of it.
BOOST_AUTO_TEST_CASE(a_cache_that_does_not_fit_is_a_risk) {
  Report report = whole_report();
  report.memory->capacity = Bytes(30.6e9);
  report.memory->fits = false;
  report.memory->reserved_peak = report.memory->allocated_peak + Bytes(20e9);
  BOOST_TEST(Json::parse(to_json(report))["memory"]["verdict"] == "at_risk");
  report.memory->capacity = Bytes(30.4e9);
  BOOST_TEST(Json::parse(to_json(report))["memory"]["verdict"] == "does_not_fit");
}

BOOST_AUTO_TEST_CASE(the_json_of_a_report_has_its_very_verdict) {
  Report report = whole_report();
  for (const double capacity : {0.0, 24e9, 31.6e9, 85e9}) {
    report.memory->capacity = Bytes(capacity);
    report.memory->fits = report.memory->used() <= Bytes(capacity);
    const MemoryFit own = *memory_fit(report);
    const MemoryFit read = *memory_fit(nlohmann::json::parse(to_json(report)));
    BOOST_TEST(to_string(read.verdict) == to_string(own.verdict));
    BOOST_TEST(details(read) == details(own));
    BOOST_TEST(meets(own.verdict, "fits") == (own.verdict == MemoryVerdict::fits));
    BOOST_TEST(meets(own.verdict, "may_fit") ==
               (own.verdict == MemoryVerdict::fits || own.verdict == MemoryVerdict::at_risk));
  }
}

BOOST_AUTO_TEST_CASE(what_is_reserved_what_fills_it_and_where_it_runs_out_are_told) {
  Report report = whole_report();
  MemoryReport& memory = *report.memory;
  memory.reserved_peak = memory.allocated_peak + Bytes(1024.0 * 1024 * 1024);
  memory.communicators = Bytes(480.0 * 1024 * 1024);
  memory.shares = {{"layer3.0", MemoryKind::optimizer_state, Bytes(2048), 2}};
  memory.programs = {{"worker", 3, memory.allocated_peak, memory.reserved_peak, false}};
  memory.fits = false;
  memory.out_of_memory = OutOfMemory{"backward layer3.0", "CUDA out of memory. Tried"};
  const std::string text = to_terminal(report, 100, false);
  for (const char* part :
       {"does not fit: 30.8 GiB of 80.0 GiB, but in pieces that are too small", "reserved more",
        "1.00 GiB", "NCCL", "480 MiB", "the largest: optimizer state of layer3.0 (2.00 KiB)",
        "at backward layer3.0: CUDA out of memory. Tried"}) {
    BOOST_TEST(has(text, part), part << "\n" << text);
  }
  const Json json = Json::parse(to_json(report))["memory"];
  BOOST_TEST(json["fragmentation_bytes"].get<double>() == 1024.0 * 1024 * 1024);
  BOOST_TEST(json["largest_at_peak"][0]["unit"] == "layer3.0");
  BOOST_TEST(json["out_of_memory"]["at"] == "backward layer3.0");
  BOOST_TEST(json["programs"][0]["rank"] == 3);
  const auto row = csv_row({report}, 0);
  BOOST_TEST(row.at("memory.largest_at_peak") == "layer3.0 optimizer_state 2048 2");
  BOOST_TEST(row.at("memory.out_of_memory.at") == "backward layer3.0");
}

BOOST_DATA_TEST_CASE(no_line_of_the_terminal_is_wider_than_the_page, data::make({80, 100, 110}),
                     width) {
  Report report = whole_report();
  report.assumptions.assign(40, "strategy.ddp.some_option_or_other = 25");
  report.description =
      std::string(30, 'x') + " " + std::string(40, 'y') + " " + std::string(40, 'z');
  const std::string text = to_terminal(report, width, false);
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const std::string line = text.substr(begin, end - begin);
    BOOST_TEST(columns(line) <= static_cast<std::size_t>(width), line);
    begin = end + 1;
  }
}

BOOST_AUTO_TEST_CASE(many_assumptions_are_folded_and_counted) {
  Report report = whole_report();
  report.assumptions.assign(40, "strategy.ddp.some_option_or_other = 25");
  BOOST_TEST(has(to_terminal(report, 80, false), " more (--format"));
  BOOST_TEST(Json::parse(to_json(report))["assumptions"].size() == 40u);
}

BOOST_AUTO_TEST_CASE(colour_changes_no_text) {
  std::string colored = to_terminal(whole_report(), 80, true);
  BOOST_TEST(has(colored, "\x1b[1;32mfits\x1b[0m"));
  for (std::size_t at = colored.find('\x1b'); at != std::string::npos; at = colored.find('\x1b')) {
    colored.erase(at, colored.find('m', at) - at + 1);
  }
  BOOST_TEST(colored == to_terminal(whole_report(), 80, false));
}

BOOST_AUTO_TEST_CASE(a_report_without_memory_staleness_and_cost_says_nothing_of_them) {
  Report report = whole_report();
  report.memory.reset();
  report.staleness.reset();
  report.steady.reset();
  report.cost.reset();
  const std::string text = to_terminal(report, 80, false);
  for (const char* part : {"memory", "staleness", "GPU hours"}) BOOST_TEST(!has(text, part), part);
}

BOOST_AUTO_TEST_SUITE_END()
