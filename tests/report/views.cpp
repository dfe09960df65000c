#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "report/prediction_interval.hpp"
#include "view/views.hpp"
#include "whole_report.hpp"

using namespace toy;
using Json = nlohmann::ordered_json;

BOOST_AUTO_TEST_SUITE(views_test)
namespace {

std::vector<std::string> keys(const Json& json) {
  std::vector<std::string> names;
  for (const auto& [key, value] : json.items()) names.push_back(key);
  return names;
}

void check_keys(const Json& json, const std::vector<std::string>& expected) {
  const std::vector<std::string> found = keys(json);
  BOOST_TEST(found == expected, boost::test_tools::per_element());
}

}  // namespace

// --- JSON ----------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(json_has_the_schemas_keys_in_their_order) {
  const Json json = Json::parse(to_json(whole_report()));
  check_keys(json, {"schema",
                    "scenario",
                    "description",
                    "answer",
                    "model",
                    "architecture",
                    "cluster",
                    "strategy",
                    "framework",
                    "precision",
                    "batch_per_gpu",
                    "global_batch",
                    "ranks",
                    "nodes",
                    "work",
                    "fidelity",
                    "step_time_s",
                    "step_time_interval_s",
                    "step_time_spread_s",
                    "worker_step_time_s",
                    "worker_step_times_s",
                    "samples_per_s",
                    "tokens_per_s",
                    "tokens_per_s_per_gpu",
                    "model_tflops_per_gpu",
                    "steady_state",
                    "epoch_time_s",
                    "train_time_s",
                    "breakdown",
                    "gpu_utilization",
                    "mfu",
                    "mfu_all_pairs",
                    "hfu",
                    "memory",
                    "staleness",
                    "collectives",
                    "step_time_alone_s",
                    "other_jobs",
                    "accuracy",
                    "accuracy_from",
                    "cost",
                    "energy",
                    "goodput",
                    "start",
                    "intervals",
                    "interval_basis",
                    "bottleneck",
                    "provenance",
                    "compute",
                    "outside_calibration",
                    "assumptions",
                    "seed",
                    "replications",
                    "replications_error",
                    "versions"});
  check_keys(json["architecture"], {"family", "layers", "parameters", "active_parameters",
                                    "trainable_parameters", "flops_forward"});
  check_keys(json["framework"], {"name", "title", "version", "said", "line", "set"});
  check_keys(json["breakdown"],
             {"compute_s", "exposed_communication_s", "hidden_communication_s", "idle_s"});
  check_keys(json["memory"],
             {"allocated_peak_bytes", "reserved_peak_bytes", "by_kind", "peak_at",
              "largest_at_peak", "fragmentation_bytes", "alloc_retries", "context_bytes",
              "communicators_bytes", "capacity_bytes", "used_bytes", "fits", "verdict",
              "needed_interval_bytes", "out_of_memory", "largest_batch_per_gpu", "programs"});
  check_keys(json["memory"]["by_kind"],
             {"parameters_bytes", "gradients_bytes", "optimizer_state_bytes", "activations_bytes",
              "buckets_bytes", "gathered_bytes", "workspace_bytes", "communication_bytes"});
  check_keys(json["steady_state"], {"reached", "from_s", "to_s", "steps_of_slowest_worker",
                                    "throughput_error", "staleness_error"});
  check_keys(json["staleness"], {"mean", "p50", "p99", "max", "histogram"});
  check_keys(json["cost"], {"usd", "gpu_hours", "usd_by_part", "energy_kwh", "co2_kg", "prices"});
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
  BOOST_TEST(json["worker_step_time_s"].get<double>() == 0.4);
  BOOST_TEST(json["worker_step_times_s"][3].get<double>() == 0.43);
  BOOST_TEST(json["steady_state"]["staleness_error"].get<double>() == 0.02);
  BOOST_TEST(json["samples_per_s"].get<double>() == report.samples_per_s);
  BOOST_TEST(json["epoch_time_s"].get<double>() == 644.3);
  BOOST_TEST(json["train_time_s"].get<double>() == 6443);
  BOOST_TEST(json["breakdown"]["idle_s"].get<double>() == report.breakdown.idle.value());
  BOOST_TEST(json["mfu"].get<double>() == 0.31);
  BOOST_TEST(json["hfu"].get<double>() == 0.4);
  BOOST_TEST(json["tokens_per_s_per_gpu"].get<double>() == 19401.207365);
  BOOST_TEST(json["model_tflops_per_gpu"].get<double>() == 96.5);
  BOOST_TEST(json["architecture"]["trainable_parameters"].get<std::int64_t>() == 1'000);
  BOOST_TEST(json["memory"]["allocated_peak_bytes"].get<double>() ==
             report.memory->allocated_peak.value());
  BOOST_TEST(json["memory"]["by_kind"]["activations_bytes"].get<std::int64_t>() == 15'000'000'000);
  BOOST_TEST(json["memory"]["fits"].get<bool>());
  BOOST_TEST(json["memory"]["largest_batch_per_gpu"].get<std::int64_t>() == 48);
  BOOST_TEST(json["staleness"]["histogram"]["12"].get<std::uint64_t>() == 1u);
  BOOST_TEST(json["step_time_alone_s"].get<double>() == 0.375);
  check_keys(json["other_jobs"][0], {"model", "strategy", "nodes", "steps", "step_time_s"});
  BOOST_TEST(json["other_jobs"][0]["nodes"][1].get<int>() == 5);
  BOOST_TEST(json["other_jobs"][0]["step_time_s"].get<double>() == 0.125);
  BOOST_TEST(json["seed"].get<std::uint64_t>() == report.seed);
  BOOST_TEST(json["outside_calibration"][0].get<std::string>() == "16 ranks from a curve of 8");
}

BOOST_AUTO_TEST_CASE(json_says_null_for_what_is_not_known) {
  const Json empty = Json::parse(to_json(Report{}));
  BOOST_TEST(empty["intervals"].empty());
  for (const char* key : {"step_time_interval_s", "worker_step_time_s", "steady_state",
                          "epoch_time_s", "train_time_s", "tokens_per_s", "tokens_per_s_per_gpu",
                          "model_tflops_per_gpu", "mfu", "hfu", "memory", "staleness",
                          "step_time_alone_s", "accuracy", "cost", "energy", "goodput", "start"}) {
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
  BOOST_TEST(row.at("step_time_alone_s") == "0.375");
  BOOST_TEST(row.at("other_jobs") == "bert_base fsdp full_shard [3,5] 26 0.125");
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

BOOST_AUTO_TEST_SUITE_END()
