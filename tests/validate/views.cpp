#include "validation/views.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <sstream>

#include "fixtures.hpp"
#include "validation/cells.hpp"
#include "view/page.hpp"

using namespace fixtures;
namespace data = boost::unit_test::data;

BOOST_AUTO_TEST_SUITE(views_test)
namespace {

ComparedMetric compared(const std::string& metric, double predicted, double measured,
                        std::optional<Ends<double>> interval = std::nullopt) {
  ComparedMetric one = number(metric, 0, interval);
  one.predicted = predicted;
  one.measured = measured;
  one.error = predicted - measured;
  if (one.kind() == ErrorKind::relative) one.error /= measured;
  return one;
}

/// One of everything: inside, outside, no interval, staleness, an input, a failure.
Validation everything() {
  ComparedFile file;
  file.file.source = "hosts on one machine";
  file.file.calibrated = "one and two hosts at 200 Mbit/s";
  add(file, "DDP, 4 hosts", "ddp",
      {compared("step_time_s", 0.0123, 0.0125, Ends<double>{0.0118, 0.0129})});
  add(file, "PS | 3 hosts", "ps asp",
      {compared("step_time_s", 0.9, 1.2, Ends<double>{0.85, 0.95}),
       compared("staleness.mean", 1.98, 2.1, Ends<double>{1.5, 2.5}),
       number("staleness.ks", 0.08)});
  add(file, "tuned, on", "ddp", {compared("samples_per_s", 1132.74, 1218.01)}, false);
  file.file.cases.back().note = "input: \"rate\"";
  add(file, "stuck", "", {});
  file.cases.back().failure = "s.yaml: error: it waits\nremedy: none";
  file.cases.back().code = ExitCode::stuck;
  return {file};
}

BOOST_AUTO_TEST_CASE(the_table_is_aligned_with_units_and_a_summary) {
  BOOST_TEST(
      to_table(everything(), false) ==
      R"(2 times are 13.3 % off on average, 13.3 % in the median; 50 % are inside their 90 % intervals, whose score is 2.44.

hosts on one machine
calibrated on: one and two hosts at 200 Mbit/s
case          metric             predicted         90 % interval        measured    error   inside
DDP, 4 hosts  step time            12.3 ms       11.8 to 12.9 ms         12.5 ms   -1.6 %      yes
PS | 3 hosts  step time             900 ms         850 to 950 ms          1.20 s  -25.0 %       no
              staleness       1.98 updates  1.50 to 2.50 updates    2.10 updates    -0.12      yes
              staleness KS               -                     -               -     0.08        -
tuned, on     throughput    1133 samples/s                     -  1218 samples/s  (-7.0 %)       -
stuck         failed: s.yaml: error: it waits

absolute error  strategy  numbers    mean  median    most          inside
testbed         ddp             1   1.6 %   1.6 %   1.6 %  100 % (1 of 1)
testbed         ps asp          1  25.0 %  25.0 %  25.0 %    0 % (0 of 1)
testbed         all             2  13.3 %  13.3 %  25.0 %   50 % (1 of 2)

staleness, in updates  strategy  numbers  mean off by  most  most KS          inside
testbed                ps asp          1         0.12  0.12     0.08  100 % (1 of 1)

Of all 90 % intervals 67 % (2 of 3) hold what was measured.
Errors in parentheses: something unknown was chosen by the case; not counted.
1 case has no prediction.
)");
}

BOOST_AUTO_TEST_CASE(markdown_escapes_what_would_end_a_cell) {
  BOOST_TEST(to_markdown(everything()) ==
             R"(**hosts on one machine**; calibrated on one and two hosts at 200 Mbit/s

| case | metric | predicted | 90 % interval | measured | error | inside | note |
|---|---|---:|---:|---:|---:|---|---|
| DDP, 4 hosts | step time | 12.3 ms | 11.8 to 12.9 ms | 12.5 ms | -1.6 % | yes |  |
| PS \| 3 hosts | step time | 900 ms | 850 to 950 ms | 1.20 s | -25.0 % | no |  |
| PS \| 3 hosts | staleness | 1.98 updates | 1.50 to 2.50 updates | 2.10 updates | -0.12 | yes |  |
| PS \| 3 hosts | staleness KS | - | - | - | 0.08 | - |  |
| tuned, on | throughput | 1133 samples/s | - | 1218 samples/s | (-7.0 %) | - | input: "rate" |
| stuck |  |  |  |  |  |  | failed: s.yaml: error: it waits |

| absolute error | strategy | numbers | mean | median | most | inside |
|---|---|---:|---:|---:|---:|---:|
| testbed | ddp | 1 | 1.6 % | 1.6 % | 1.6 % | 100 % (1 of 1) |
| testbed | ps asp | 1 | 25.0 % | 25.0 % | 25.0 % | 0 % (0 of 1) |
| testbed | all | 2 | 13.3 % | 13.3 % | 25.0 % | 50 % (1 of 2) |

| staleness, in updates | strategy | numbers | mean off by | most | most KS | inside |
|---|---|---:|---:|---:|---:|---:|
| testbed | ps asp | 1 | 0.12 | 0.12 | 0.08 | 100 % (1 of 1) |

Errors in parentheses: something unknown was chosen by the case; not counted. Of all 90 % intervals 67 % (2 of 3) hold what was measured. Cases without a prediction: 1.
)");
}

BOOST_AUTO_TEST_CASE(csv_has_every_number_in_full) {
  BOOST_TEST(
      to_csv(everything()) ==
      R"(source,group,case,strategy,metric,predicted,measured,low,high,relative_error,difference,distance,inside,held_out,note,failure,by,points,right,failure_probability
hosts on one machine,testbed,"DDP, 4 hosts",ddp,step_time_s,0.0123,0.0125,0.0118,0.0129,-0.016000000000000042,,,true,true,,,,,,
hosts on one machine,testbed,PS | 3 hosts,ps asp,step_time_s,0.9,1.2,0.85,0.95,-0.24999999999999994,,,false,true,,,,,,
hosts on one machine,testbed,PS | 3 hosts,ps asp,staleness.mean,1.98,2.1,1.5,2.5,,-0.1200000000000001,,true,true,,,,,,
hosts on one machine,testbed,PS | 3 hosts,ps asp,staleness.ks,,,,,,,0.08,,true,,,,,,
hosts on one machine,testbed,"tuned, on",ddp,samples_per_s,1132.74,1218.01,,,-0.07000763540529223,,,,false,"input: ""rate""",,,,,
hosts on one machine,testbed,stuck,,,,,,,,,,,true,,s.yaml: error: it waits,,,,
)");
}

BOOST_AUTO_TEST_CASE(json_has_files_cases_and_summaries) {
  const auto json = nlohmann::json::parse(to_json(everything()));
  BOOST_TEST(json.at("schema") == "rehearse.validation/2");
  BOOST_TEST(json.at("failed") == 1);
  BOOST_TEST(json.at("coverage").at("inside") == 2);
  BOOST_TEST(json.at("coverage").at("intervals") == 3);
  const auto& cases = json.at("files").at(0).at("cases");
  BOOST_TEST(cases.at(0).at("metrics").at(0).at("inside") == true);
  BOOST_TEST(cases.at(0).at("metrics").at(0).at("interval").at(0) == 0.0118);
  BOOST_TEST(cases.at(1).at("metrics").at(2).at("distance") == 0.08);
  BOOST_TEST(cases.at(2).at("metrics").at(0).at("interval").is_null());
  BOOST_TEST(cases.at(2).at("held_out") == false);
  BOOST_TEST(cases.at(3).at("failure") == "s.yaml: error: it waits\nremedy: none");
  BOOST_TEST(json.at("staleness_differences").at(0).at("largest_distance") == 0.08);
  BOOST_TEST(json.at("relative_errors").size() == 3u);
}

BOOST_AUTO_TEST_CASE(red_is_what_its_interval_does_not_hold) {
  std::istringstream lines(to_table(everything(), true));
  std::string line, red;
  while (std::getline(lines, line)) {
    if (line.find("\x1b[1;31m") != std::string::npos) red += line.substr(7, 8) + ";";
  }
  BOOST_TEST(red == "PS | 3 h;stuck   ;1 case h;");
  BOOST_TEST(to_table(everything(), false).find('\x1b') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(no_line_is_wider_than_120_columns_and_no_name_is_cut) {
  ComparedFile file;
  file.file.source = std::string(60, 'x') + " " + std::string(70, 'y');
  const std::string name(90, 'n');
  add(file, name, "ddp",
      {compared("samples_per_s", 1132.74, 1218.01, Ends<double>{1098.4, 1170.3})});
  add(file, "stuck", "", {});
  file.cases.back().failure = std::string(300, 'z');
  const std::string table = to_table({file}, false);
  std::istringstream lines(table);
  std::string line;
  while (std::getline(lines, line)) BOOST_TEST(columns(line) <= 120u);
  BOOST_TEST(table.find(name) != std::string::npos);
  BOOST_TEST(table.find("zzz...") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_table_that_needs_more_than_120_columns_has_them) {
  ComparedFile file;
  ComparedMetric metric = compared("samples_per_s", 1132.74, 1218.01, Ends<double>{1098.4, 1170.3});
  metric.by = std::string(80, 'm');
  add(file, "wide", "ddp", {metric});
  const std::string table = to_table({file}, false);
  BOOST_TEST(table.find(metric.by) != std::string::npos);
  BOOST_TEST(table.find("1218 samples/s  -7.0 %       no\n") != std::string::npos);
  BOOST_TEST(table.find("...") == std::string::npos);
}

struct Words {
  std::string metric;
  double low, high;
  std::string said;
};
std::ostream& operator<<(std::ostream& stream, const Words& words) { return stream << words.said; }

const std::vector<Words> kWords = {
    {"step_time_s", 0.0118, 0.0129, "11.8 to 12.9 ms"},
    {"step_time_s", 0.0009, 0.0012, "900 us to 1.20 ms"},
    {"train_time_s", 100, 200, "1 min 40 s to 3 min 20 s"},
    {"samples_per_s", 66.66, 1170.3, "66.66 to 1170 samples/s"},
    {"memory.allocated_peak_bytes", 1048576, 3145728, "1.00 to 3.00 MiB"},
    {"staleness.mean", 1.5, 2.25, "1.50 to 2.25 updates"},
    {"cost.usd", 1, 23.456, "1.00 to 23.46 USD"},
    {"mfu", 0.31, 0.4, "0.31 to 0.4"},
};

BOOST_DATA_TEST_CASE(intervals_are_written_with_their_unit, data::make(kWords), words) {
  BOOST_TEST(interval_words(compared(words.metric, 1, 1, Ends<double>{words.low, words.high})) ==
             words.said);
}

BOOST_AUTO_TEST_CASE(an_error_that_rounds_to_nothing_has_one_sign) {
  BOOST_TEST(error_words(number("step_time_s", -0.0004)) == "+0.0 %");
  BOOST_TEST(error_words(number("step_time_s", -0.0006)) == "-0.1 %");
}

RecordedRun run_on(const std::string& hardware, const std::string& date) {
  RecordedRun run;
  run.hardware = hardware;
  run.date = date;
  return run;
}

BOOST_AUTO_TEST_CASE(recorded_runs_say_on_what_and_when) {
  ComparedFile cases;
  add(cases, "a", "ddp", {});
  add(cases, "b", "ddp", {});
  CaseFile& file = cases.file;
  BOOST_TEST(measured_on(file).empty());
  file.cases[0].recorded = run_on("AMD EPYC", "2026-11-20T20:36:56Z");
  BOOST_TEST(measured_on(file) == "1 run on AMD EPYC, 2026-11-20");
  file.cases[1].recorded = run_on("H100", "2026-11-22T20:36:56Z");
  BOOST_TEST(measured_on(file) == "2 runs on AMD EPYC and H100, 2026-11-20 to 2026-11-22");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
