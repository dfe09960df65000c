#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "config/whole_file.hpp"
#include "view/views.hpp"
#include "whole_report.hpp"

using namespace toy;
using Json = nlohmann::ordered_json;

BOOST_AUTO_TEST_SUITE(read_report_test)
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

StrategyForecast forecast() {
  StrategyForecast told;
  told.name = "ps ssp 3";
  told.mean_staleness = 2.5;
  told.p99_staleness = 4;
  told.learning_rate = 0.1;
  told.momentum = 0.9;
  told.samples_per_update = 8;
  told.pace = Pace{.samples_per_s = 77.5, .samples_per_update = 8};
  told.stability_index = 0.25;
  told.failure_probability = 0.01;
  told.verdict = Verdict::may_diverge;
  told.samples = 5e5;
  told.time = Seconds(6443);
  told.accuracy = {0.91, 0.85, 0.95};
  told.mean_accuracy = 0.905;
  told.staleness_loss = 0.004;
  told.target = 0.94;
  told.samples_to_target = {kNever, 6e5, kNever};
  told.time_to_target = Seconds(kNever);
  told.curve = {{5e3, Seconds(64), {0.5, 0.4, 0.6}}, {5e5, Seconds(6443), {0.91, 0.85, 0.95}}};
  told.outside_calibration = {{"mean staleness", "mean staleness 2.5: fitted on 0 to 2"}};
  return told;
}

ComputeReport compute() {
  const FamilyReport products{.family = CostFamily::products,
                              .ground = CostGround::fitted,
                              .from = "gemm tensor on A100-SXM-80",
                              .off = 0.05,
                              .forward = Seconds(0.1),
                              .backward = Seconds(0.2),
                              .within = Seconds(0.1),
                              .farthest = 1.5};
  return {.gpu = "A100",
          .families = {products},
          .units = {{.first = "layer0",
                     .last = "layer3",
                     .count = 4,
                     .forward = Seconds(0.025),
                     .backward = Seconds(0.05),
                     .grounds = {{CostGround::fitted, 0.75}, {CostGround::carried_over, 0.25}},
                     .within_measured = 1.0 / 3,
                     .farthest = 1.5}}};
}

/// In which nothing is missing but what no report has together.
Report complete_report() {
  Report report = whole_report();
  MemoryReport& memory = *report.memory;
  memory.reserved_peak = Bytes(33e9);
  memory.shares = {{"layer3.0", MemoryKind::activations, Bytes(2e9), 7}};
  memory.communicators = Bytes(3e8);
  memory.fits = false;
  memory.out_of_memory = OutOfMemory{.at = "backward layer3.0", .message = "CUDA out of memory"};
  memory.alloc_retries = 2;
  memory.programs = {{"worker", 0, Bytes(31e9), Bytes(33e9), false},
                     {"server", 3, Bytes(1e9), {}, true}};
  memory.would_fit = {{.change = "FSDP full_shard",
                       .set = "--set 'strategy={fsdp: {}}'",
                       .changes_training = true,
                       .at_risk = true,
                       .allocated_peak = Bytes(20e9),
                       .reserved_peak = Bytes(21e9),
                       .used = Bytes(22e9),
                       .step_time = Seconds(0.5),
                       .samples_per_s = 64,
                       .price = 0.2}};
  report.stages = {{.stage = 0,
                    .rank = 0,
                    .compute = Seconds(0.3),
                    .exposed = {{MeshAxis::tensor, Seconds(0.02)}, {MeshAxis::data, Seconds(0.01)}},
                    .warm_up = Seconds(0.04),
                    .cool_down = Seconds(0.03),
                    .steady = Seconds(0.01)}};
  report.collectives = {{.kind = "all_reduce",
                         .ranks = 4,
                         .nodes = 2,
                         .size = Bytes(26214400),
                         .count = 9,
                         .algorithm = "ring",
                         .protocol = "Simple",
                         .answered_by = "NCCL model",
                         .outside = "16 ranks from a curve of 8",
                         .time = Seconds(0.003),
                         .interval = {Seconds(0.002), Seconds(0.004)},
                         .busbw = Bytes(26214400) / Seconds(0.0021)}};
  report.compute = {compute()};
  report.accuracy = forecast();
  report.replications = 9;
  report.replications_error = 0.0125;
  return report;
}

std::string error_of(const std::string& text) {
  try {
    report_from_json(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

/// Of the complete report with one value set to another.
std::string error_with(const std::string& pointer, const Json& value) {
  Json document = Json::parse(to_json(complete_report()));
  document[Json::json_pointer(pointer)] = value;
  return error_of(document.dump());
}

/// Every value of a document by its path, of lists the first alone.
void collect(const Json& value, const std::string& path, const Json::json_pointer& at,
             std::map<std::string, Json::json_pointer>& all) {
  if (value.is_array() && !value.empty()) collect(value[0], path + "[0]", at / 0, all);
  if (!path.empty()) all.emplace(path, at);
  if (!value.is_object()) return;
  for (const auto& [key, inner] : value.items())
    collect(inner, path.empty() ? key : path + "." + key, at / key, all);
}
std::map<std::string, Json::json_pointer> values_of(const Json& document) {
  std::map<std::string, Json::json_pointer> all;
  collect(document, "", Json::json_pointer(), all);
  return all;
}

/// What follows from other keys.
const std::set<std::string> kDerived = {"answer",
                                        "step_time_interval_s",
                                        "step_time_interval_s[0]",
                                        "memory.fragmentation_bytes",
                                        "memory.used_bytes",
                                        "memory.needed_interval_bytes",
                                        "memory.needed_interval_bytes[0]",
                                        "memory.needed_interval_bytes[1]",
                                        "memory.verdict",
                                        "compute[0].families[0].share"};
const std::set<std::string> kOptional = {"stages", "memory.would_fit"};
/// Objects whose keys are data: none must be there.
const std::vector<std::string> kFree = {"intervals.", "versions.", "staleness.histogram.",
                                        "compute[0].units[0].grounds.",
                                        "stages[0].exposed_communication."};

bool may_be_missing(const std::string& path) {
  return kDerived.contains(path) || kOptional.contains(path) ||
         std::ranges::any_of(kFree, [&](const auto& prefix) { return path.starts_with(prefix); });
}

BOOST_AUTO_TEST_CASE(a_saved_report_cannot_draw_on_the_terminal) {
  Json json = Json::parse(to_json(whole_report()));
  json["model"] = "llama\x1b[8m\x1b[2J\u202e";
  const Report read = report_from_json(json.dump(), "report");
  BOOST_TEST(read.model == "llama\\x1b[8m\\x1b[2J\\u202e");
}

}  // namespace

BOOST_AUTO_TEST_CASE(expected_reports_are_written_again_byte_for_byte) {
  std::size_t count = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(data_folder() / "tests/scenarios/expected")) {
    const std::string text = read_whole_file(file.path());
    if (Json::parse(text).value("schema", "") != "rehearse.report/1") continue;
    ++count;
    BOOST_TEST((to_json(report_from_json(text)) == text), file.path());
  }
  BOOST_TEST(count >= 8u);
}

BOOST_AUTO_TEST_CASE(a_complete_and_an_empty_report_are_written_again_byte_for_byte) {
  for (const Report& report : {complete_report(), whole_report(), Report{}}) {
    const std::string text = to_json(report);
    BOOST_TEST(to_json(report_from_json(text)) == text);
  }
}

// A quotient times its divisor, divided by it again, is the same to the last bit.
BOOST_AUTO_TEST_CASE(any_bandwidth_is_written_again_as_it_was) {
  Report report = whole_report();
  for (int k = 1; k <= 2000; ++k) {
    report.collectives = complete_report().collectives;
    report.collectives.front().busbw =
        BytesPerSecond(1e12 * std::fmod(k * 0.6180339887498949, 1.0));
    const std::string text = to_json(report);
    if (to_json(report_from_json(text)) != text) BOOST_ERROR(k);
  }
}

BOOST_AUTO_TEST_CASE(what_json_calls_null_is_infinite_or_unknown_as_before) {
  Report report = complete_report();
  report.goodput->young = report.goodput->job_mtbf = Seconds(kNever);
  report.memory->capacity = Bytes(0);
  report.memory->fits = true;
  const Report read = report_from_json(to_json(report));
  BOOST_TEST(read.goodput->young.value() == kNever);
  BOOST_TEST(read.goodput->checkpoint_interval.value() == 1800);
  BOOST_TEST(read.accuracy->samples_to_target.value == kNever);
  BOOST_TEST(read.accuracy->samples_to_target.low == 6e5);
  BOOST_TEST(read.accuracy->time_to_target->value() == kNever);
  BOOST_TEST(read.memory->fits);
  BOOST_TEST(read.memory->capacity.value() == 0);
  BOOST_TEST(read.compute[0].families[0].within.value() == 0.1,
             boost::test_tools::tolerance(1e-15));
  BOOST_TEST(to_terminal(read, 100, false) == to_terminal(report, 100, false));
}

BOOST_AUTO_TEST_CASE(a_key_that_is_missing_is_named_unless_it_follows_from_others) {
  const Json whole = Json::parse(to_json(complete_report()));
  std::size_t required = 0;
  for (const auto& [path, at] : values_of(whole)) {
    if (path.ends_with("]")) continue;
    Json document = whole;
    document[at.parent_pointer()].erase(at.back());
    const std::string error = error_of(document.dump());
    if (may_be_missing(path)) {
      BOOST_TEST(error == "none", path);
      continue;
    }
    ++required;
    BOOST_TEST(error.starts_with("report: error: " + path + ": expected "), path << ": " << error);
    BOOST_TEST(error.ends_with("; got nothing"), path << ": " << error);
  }
  BOOST_TEST(required > 150u);
}

BOOST_AUTO_TEST_CASE(a_value_of_another_type_is_named) {
  const Json whole = Json::parse(to_json(complete_report()));
  for (const auto& [path, at] : values_of(whole)) {
    if (kDerived.contains(path) || whole[at].is_null()) continue;
    Json document = whole;
    document[at] = whole[at].is_number() ? Json("x") : Json(17);
    const std::string error = error_of(document.dump());
    BOOST_TEST(error.starts_with("report: error: " + path + ": expected "), path << ": " << error);
  }
}

BOOST_AUTO_TEST_CASE(errors_say_what_was_expected_and_what_was_found) {
  BOOST_TEST(error_with("/accuracy/curve/1/samples", "many") ==
             "report: error: accuracy.curve[1].samples: expected a number; got the text \"many\"");
  BOOST_TEST(error_with("/accuracy/verdict", "explodes") ==
             "report: error: accuracy.verdict: expected one of converges, may diverge, diverges; "
             "got the text \"explodes\"");
  BOOST_TEST(error_with("/mfu", true) == "report: error: mfu: expected a number or null; got true");
  BOOST_TEST(error_with("/memory", Json::array()) ==
             "report: error: memory: expected an object or null; got a list");
  BOOST_TEST(error_with("/ranks", -1) ==
             "report: error: ranks: expected a whole number from 0 to 18446744073709551615; got "
             "-1");
  BOOST_TEST(error_with("/staleness/p99", 4294967296) ==
             "report: error: staleness.p99: expected a whole number from 0 to 4294967295; got "
             "4294967296");
  BOOST_TEST(error_with("/collectives/0/nodes", 1.5) ==
             "report: error: collectives[0].nodes: expected a whole number from -2147483648 to "
             "2147483647; got 1.5");
  BOOST_TEST(error_with("/intervals/cost.usd", {1, 2, 3}) ==
             "report: error: intervals.cost.usd: expected a list of two; got one of 3");
  BOOST_TEST(error_with("/staleness/histogram/-1", 5) ==
             "report: error: staleness.histogram.-1: expected a staleness as the key; got \"-1\"");
  BOOST_TEST(error_with("/compute/0/units/0/grounds/guessed", 0.5) ==
             "report: error: compute[0].units[0].grounds.guessed: expected one of given, measured, "
             "transferred, fitted, carried over, datasheet; got the text \"guessed\"");
  BOOST_TEST(error_with("/start/mode", "eager") ==
             "report: error: start.mode: expected one of elastic, gang; got the text \"eager\"");
  BOOST_TEST(error_with("/step_time_s", std::string(100, 'x')) ==
             "report: error: step_time_s: expected a number; got the text \"" +
                 std::string(59, 'x') + "...");
}

BOOST_AUTO_TEST_CASE(what_is_no_report_is_refused) {
  BOOST_TEST(error_of("") == "report:1: error: this is no JSON, or not all of it");
  BOOST_TEST(error_of("{\"schema\":\n") == "report:2: error: this is no JSON, or not all of it");
  BOOST_TEST(error_of("{\"schema\": \"\xff\"}") ==
             "report:1: error: this is no JSON, or not all of it");
  BOOST_TEST(error_of(std::string(100'000, '[')) ==
             "report:1: error: this is no JSON, or not all of it");
  BOOST_TEST(error_of("{\"step_time_s\": 1e999}") == "report: error: a number that is too large");
  BOOST_TEST(error_of("[]") == "report: error: expected an object; got a list");
  BOOST_TEST(error_of("{}") == "report: error: schema: expected a text; got nothing");
  BOOST_TEST(error_of("{\"schema\": \"rehearse.study/1\"}") ==
             "report: error: schema: expected \"rehearse.report/1\"; got the text "
             "\"rehearse.study/1\"\nremedy: give a report of a training, which `rehearse run "
             "--format json` writes");
  BOOST_CHECK_EXCEPTION(report_from_json("{}", "runs/a.json"), InputError, [](const auto& error) {
    return std::string(error.what()) == "runs/a.json: error: schema: expected a text; got nothing";
  });
}

BOOST_AUTO_TEST_CASE(a_damaged_text_is_read_or_an_input_error) {
  const std::string whole = to_json(complete_report());
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text = whole;
    for (int changes = 1 + i % 3; changes > 0; --changes)
      text[random() % text.size()] = "0-9.e\"{}[],:nx\n\xff"[random() % 16];
    if (i % 10 == 0) text.resize(random() % text.size());
    try {
      report_from_json(text);
    } catch (const InputError&) {
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
