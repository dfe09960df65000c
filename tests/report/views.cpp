#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "report/page.hpp"
#include "report/prediction_interval.hpp"
#include "toy.hpp"

using namespace toy;
namespace data = boost::unit_test::data;
using Json = nlohmann::ordered_json;

namespace {

/// A report in which every number is another one.
Report whole_report() {
  Report report;
  report.scenario = "scenarios/toy.yaml";
  report.description = "A toy, with \"quotes\", commas";
  report.model = "toy";
  report.cluster = "pair";
  report.strategy = "ps ssp 3";
  report.precision = "bf16";
  report.batch_per_gpu = 8;
  report.global_batch = 32;
  report.ranks = 4;
  report.nodes = 2;
  report.fidelity = "flow";
  report.step_time = Seconds(0.41234567890123);
  report.step_time_spread = {Seconds(0.39), Seconds(0.45)};
  report.samples_per_s = 77.60482946;
  report.epoch_time = Seconds(644.3);
  report.train_time = Seconds(6443);
  report.breakdown = {Seconds(0.3), Seconds(0.1), Seconds(0.05), Seconds(0.01234567890123)};
  report.gpu_utilization = 0.7275;
  report.mfu = 0.31;
  MemoryReport memory;
  memory.allocated_peak = Bytes(31e9 + 1.0 / 3);
  memory.at_peak.by_kind = {Bytes(8e9 + 1.0 / 3),
                            Bytes(8e9),
                            Bytes(0),
                            Bytes(15e9),
                            Bytes(0),
                            Bytes(0),
                            Bytes(0),
                            Bytes(0)};
  memory.peak_at = "backward layer3.0";
  memory.context = Bytes(524288000);
  memory.capacity = Bytes(85899345920);
  memory.largest_batch_per_gpu = 48;
  report.memory = memory;
  report.staleness = StalenessReport{
      .mean = 2.5, .p50 = 2, .p99 = 4, .max = 12, .histogram = {{2, 30}, {3, 29}, {12, 1}}};
  report.cost = CostReport{.gpu_hours = 7.16,
                           .usd = 23.5,
                           .usd_by_part = CostParts{.training = 20, .failures = 2, .energy = 1.5},
                           .energy_kwh = 15.25,
                           .co2_kg = 6.5};
  report.energy = EnergyReport{.power_w = 1400, .gpus_w = 1000, .hosts_w = 250, .step_j = 577};
  report.goodput = GoodputReport{.share = 0.925,
                                 .expected_time = Seconds(6965.4),
                                 .expected_time_spread = {Seconds(6600), Seconds(7400)},
                                 .checkpoint_interval = Seconds(1800),
                                 .job_mtbf = Seconds(36000),
                                 .failures = 0.25,
                                 .trainings = 1000};
  report.start = StartReport{.elastic = true,
                             .first_step = Seconds(15),
                             .all_there_spread = {Seconds(60), Seconds(125)},
                             .samples_meanwhile = 1234};
  report.intervals = {{"step_time_s", {0.4, 0.1 + 0.2 + 0.13}},
                      {"samples_per_s", {74.4, 80}},
                      {"epoch_time_s", {625, 672}},
                      {"train_time_s", {6250, 6720}},
                      {"memory.allocated_peak_bytes", {30e9, 32e9}},
                      {"staleness.mean", {2.25, 2.875}},
                      {"cost.gpu_hours", {6.9, 7.5}},
                      {"cost.usd", {22.5, 24.75}},
                      {"cost.energy_kwh", {14, 16}},
                      {"cost.co2_kg", {6, 7}},
                      {"goodput.expected_time_s", {6500, 7500}}};
  report.bottleneck = "network: 62 % of the step is exposed pull and push";
  report.provenance = "compute: analytic; communication: links";
  report.outside_calibration = {"16 ranks from a curve of 8"};
  report.assumptions = {"one = 1", "two = 2"};
  report.seed = 18446744073709551615ULL;
  report.versions = {{"rehearse", "0.1.0"}, {"simgrid", "3.32.0"}};
  return report;
}

std::vector<std::string> keys(const Json& json) {
  std::vector<std::string> names;
  for (const auto& [key, value] : json.items()) names.push_back(key);
  return names;
}

void check_keys(const Json& json, const std::vector<std::string>& expected) {
  const std::vector<std::string> found = keys(json);
  BOOST_TEST(found == expected, boost::test_tools::per_element());
}

/// RFC 4180, as a reader of it would.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows{{""}};
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && inside && i + 1 < text.size() && text[i + 1] == '"')
      rows.back().back() += text[++i];
    else if (c == '"')
      inside = !inside;
    else if (c == ',' && !inside)
      rows.back().emplace_back();
    else if (c == '\n' && !inside)
      rows.push_back({""});
    else
      rows.back().back() += c;
  }
  rows.pop_back();
  return rows;
}

std::map<std::string, std::string> csv_row(const std::vector<Report>& reports, std::size_t index) {
  const auto rows = parse_csv(to_csv(reports));
  std::map<std::string, std::string> row;
  for (std::size_t i = 0; i < rows[0].size(); ++i) row[rows[0][i]] = rows[index + 1].at(i);
  return row;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

// --- JSON ----------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(json_has_the_schemas_keys_in_their_order) {
  const Json json = Json::parse(to_json(whole_report()));
  check_keys(json, {"schema",
                    "scenario",
                    "description",
                    "model",
                    "cluster",
                    "strategy",
                    "precision",
                    "batch_per_gpu",
                    "global_batch",
                    "ranks",
                    "nodes",
                    "fidelity",
                    "step_time_s",
                    "step_time_interval_s",
                    "step_time_spread_s",
                    "samples_per_s",
                    "epoch_time_s",
                    "train_time_s",
                    "breakdown",
                    "gpu_utilization",
                    "mfu",
                    "memory",
                    "staleness",
                    "accuracy",
                    "cost",
                    "energy",
                    "goodput",
                    "start",
                    "intervals",
                    "bottleneck",
                    "provenance",
                    "outside_calibration",
                    "assumptions",
                    "seed",
                    "versions"});
  check_keys(json["breakdown"],
             {"compute_s", "exposed_communication_s", "hidden_communication_s", "idle_s"});
  check_keys(json["memory"], {"allocated_peak_bytes", "reserved_peak_bytes", "by_kind", "peak_at",
                              "largest_at_peak", "fragmentation_bytes", "alloc_retries",
                              "context_bytes", "communicators_bytes", "capacity_bytes", "fits",
                              "out_of_memory", "largest_batch_per_gpu", "programs"});
  check_keys(json["memory"]["by_kind"],
             {"parameters_bytes", "gradients_bytes", "optimizer_state_bytes", "activations_bytes",
              "buckets_bytes", "gathered_bytes", "workspace_bytes", "communication_bytes"});
  check_keys(json["staleness"], {"mean", "p50", "p99", "max", "histogram"});
  check_keys(json["cost"], {"usd", "gpu_hours", "usd_by_part", "energy_kwh", "co2_kg"});
  check_keys(json["cost"]["usd_by_part"], {"training", "failures", "start", "energy"});
  check_keys(json["energy"], {"power_w", "gpus_w", "hosts_w", "pue_w", "step_j"});
  check_keys(json["goodput"],
             {"share", "expected_time_s", "expected_time_spread_s", "checkpoint_interval_s",
              "checkpoint_write_s", "young_daly_s", "daly_higher_order_s", "job_mtbf_s",
              "failures_expected", "checkpoints_expected", "checkpoint_s", "lost_s", "recovery_s",
              "waiting_s", "slower_s", "start_s", "expectation", "trainings"});
  check_keys(json["start"], {"mode", "first_step_s", "all_there_s", "all_there_spread_s", "delay_s",
                             "samples_meanwhile"});
  check_keys(json["intervals"], interval_keys());
  BOOST_TEST(json["schema"] == "rehearse.report/1");
}

BOOST_AUTO_TEST_CASE(json_parsed_back_holds_the_reports_very_numbers) {
  const Report report = whole_report();
  const Json json = Json::parse(to_json(report));
  BOOST_TEST(json["step_time_s"].get<double>() == report.step_time.value());
  BOOST_TEST(json["step_time_interval_s"][1].get<double>() == 0.1 + 0.2 + 0.13);
  BOOST_TEST((json["intervals"]["step_time_s"] == json["step_time_interval_s"]));
  BOOST_TEST(json["step_time_spread_s"][0].get<double>() == 0.39);
  BOOST_TEST(json["samples_per_s"].get<double>() == report.samples_per_s);
  BOOST_TEST(json["epoch_time_s"].get<double>() == 644.3);
  BOOST_TEST(json["train_time_s"].get<double>() == 6443);
  BOOST_TEST(json["breakdown"]["idle_s"].get<double>() == report.breakdown.idle.value());
  BOOST_TEST(json["mfu"].get<double>() == 0.31);
  BOOST_TEST(json["memory"]["allocated_peak_bytes"].get<double>() ==
             report.memory->allocated_peak.value());
  BOOST_TEST(json["memory"]["by_kind"]["activations_bytes"].get<std::int64_t>() == 15'000'000'000);
  BOOST_TEST(json["memory"]["fits"].get<bool>());
  BOOST_TEST(json["memory"]["largest_batch_per_gpu"].get<std::int64_t>() == 48);
  BOOST_TEST(json["staleness"]["histogram"]["12"].get<std::uint64_t>() == 1u);
  BOOST_TEST(json["seed"].get<std::uint64_t>() == report.seed);
  BOOST_TEST(json["outside_calibration"][0].get<std::string>() == "16 ranks from a curve of 8");
}

BOOST_AUTO_TEST_CASE(json_says_null_for_what_is_not_known) {
  const Json empty = Json::parse(to_json(Report{}));
  BOOST_TEST(empty["intervals"].empty());
  for (const char* key : {"step_time_interval_s", "epoch_time_s", "train_time_s", "mfu", "memory",
                          "staleness", "accuracy", "cost", "energy", "goodput", "start"}) {
    BOOST_TEST(empty[key].is_null(), key);
  }
  const Json whole = Json::parse(to_json(whole_report()));
  BOOST_TEST(whole["accuracy"].is_null());
  BOOST_TEST(whole["memory"]["reserved_peak_bytes"].is_null());
}

BOOST_AUTO_TEST_CASE(whole_bytes_are_integers) {
  BOOST_TEST(has(to_json(whole_report()), "\"context_bytes\": 524288000,"));
}

// --- CSV -----------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(csv_shows_the_jsons_numbers) {
  const Report report = whole_report();
  const Json json = Json::parse(to_json(report));
  auto row = csv_row({report}, 0);
  BOOST_TEST(row.at("step_time_s") == json["step_time_s"].dump());
  BOOST_TEST(row.at("step_time_interval_s.low") == "0.4");
  BOOST_TEST(row.at("step_time_spread_s.high") == "0.45");
  BOOST_TEST(row.at("step_time_s_low") == "0.4");
  BOOST_TEST(row.at("staleness.mean_high") == "2.875");
  BOOST_TEST(row.at("memory.allocated_peak_bytes") ==
             json["memory"]["allocated_peak_bytes"].dump());
  BOOST_TEST(row.at("memory.by_kind.activations_bytes") == "15000000000");
  BOOST_TEST(row.at("memory.reserved_peak_bytes") == "");
  BOOST_TEST(row.at("cost.usd_by_part.failures") == "2.0");
  BOOST_TEST(row.at("cost.co2_kg_high") == "7.0");
  BOOST_TEST(row.at("goodput.share") == "0.925");
  BOOST_TEST(row.at("goodput.expected_time_spread_s.low") == "6600.0");
  BOOST_TEST(row.at("start.all_there_spread_s.high") == "125.0");
  BOOST_TEST(row.at("staleness.histogram") == "2: 30; 3: 29; 12: 1");
  BOOST_TEST(row.at("assumptions") == "one = 1; two = 2");
  BOOST_TEST(row.at("versions.simgrid") == "3.32.0");
}

BOOST_AUTO_TEST_CASE(csv_quotes_commas_quotes_and_line_breaks) {
  Report report = whole_report();
  report.description = "a \"b\",\nc";
  BOOST_TEST(has(to_csv({report}), "\"a \"\"b\"\",\nc\""));
  BOOST_TEST(csv_row({report}, 0).at("description") == report.description);
}

BOOST_AUTO_TEST_CASE(csv_rows_of_unlike_reports_share_their_columns) {
  const auto rows = parse_csv(to_csv({Report{}, whole_report()}));
  BOOST_REQUIRE(rows.size() == 3u);
  for (const auto& row : rows) BOOST_TEST(row.size() == rows[0].size());
  BOOST_TEST(csv_row({Report{}, whole_report()}, 0).at("memory.allocated_peak_bytes") == "");
  BOOST_TEST(csv_row({Report{}, whole_report()}, 1).at("staleness.max") == "12");
  BOOST_TEST(csv_row({Report{}}, 0).contains("staleness.max"));
  BOOST_TEST(csv_row({Report{}}, 0).contains("goodput.expected_time_spread_s.low"));
  BOOST_TEST(!csv_row({Report{}}, 0).contains("goodput"));
  BOOST_TEST(csv_row({Report{}}, 0).at("cost.usd_low") == "");
}

// --- terminal ------------------------------------------------------------------------------------

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
                           "compute: analytic",
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
  report.cost.reset();
  const std::string text = to_terminal(report, 80, false);
  for (const char* part : {"memory", "staleness", "GPU hours"}) BOOST_TEST(!has(text, part), part);
}
