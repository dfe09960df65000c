#pragma once

#include <map>
#include <string>
#include <vector>

#include "toy.hpp"
#include "view/views.hpp"

namespace toy {

/// A report in which every number is another one.
inline Report whole_report() {
  Report report;
  report.scenario = "scenarios/toy.yaml";
  report.description = "A toy, with \"quotes\", commas";
  report.model = "toy";
  report.cluster = "pair";
  report.strategy = "ps ssp 3";
  report.precision = "bf16";
  report.architecture = {.family = "llama",
                         .layers = 12,
                         .parameters = 1'000'000,
                         .active_parameters = 900'000,
                         .trainable_parameters = 1'000,
                         .flops_forward = 2.5e9};
  report.batch_per_gpu = 8;
  report.global_batch = 32;
  report.ranks = 4;
  report.nodes = 2;
  report.fidelity = "flow";
  report.step_time = Seconds(0.41234567890123);
  report.step_time_spread = {Seconds(0.39), Seconds(0.45)};
  report.worker_step_time = Seconds(0.4);
  report.worker_step_times = {Seconds(0.38), Seconds(0.39), Seconds(0.4), Seconds(0.43)};
  report.steady = SteadyReport{.reached = true,
                               .begin = Seconds(1.25),
                               .end = Seconds(20.5),
                               .slowest = 44.5,
                               .throughput_error = 0.004,
                               .staleness_error = 0.02};
  report.samples_per_s = 77.60482946;
  report.tokens_per_s = 77604.82946;
  report.tokens_per_s_per_gpu = 19401.207365;
  report.model_tflops_per_gpu = 96.5;
  report.epoch_time = Seconds(644.3);
  report.train_time = Seconds(6443);
  report.breakdown = {Seconds(0.3), Seconds(0.1), Seconds(0.05), Seconds(0.01234567890123)};
  report.gpu_utilization = 0.7275;
  report.mfu = 0.31;
  report.mfu_all_pairs = 0.35;
  report.hfu = 0.4;
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
                           .co2_kg = 6.5,
                           .prices = {"4.00 USD a node and hour, on demand, as given"}};
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
                      {"worker_step_time_s", {0.39, 0.42}},
                      {"samples_per_s", {74.4, 80}},
                      {"tokens_per_s", {139e3, 171e3}},
                      {"tokens_per_s_per_gpu", {17e3, 21e3}},
                      {"epoch_time_s", {625, 672}},
                      {"train_time_s", {6250, 6720}},
                      {"memory.allocated_peak_bytes", {30.5e9 - 524288000, 32.5e9 - 524288000}},
                      {"memory.used_bytes", {30.5e9, 32.5e9}},
                      {"staleness.mean", {2.25, 2.875}},
                      {"cost.gpu_hours", {6.9, 7.5}},
                      {"cost.usd", {22.5, 24.75}},
                      {"cost.energy_kwh", {14, 16}},
                      {"cost.co2_kg", {6, 7}},
                      {"goodput.expected_time_s", {6500, 7500}}};
  report.step_time_alone = Seconds(0.375);
  report.other_jobs = {{.model = "bert_base",
                        .strategy = "fsdp full_shard",
                        .nodes = {3, 5},
                        .steps = 26,
                        .step_time = Seconds(0.125)}};
  report.bottleneck = "network: 62 % of the step is exposed pull and push";
  report.provenance = "compute: fitted kernels; communication: links";
  report.outside_calibration = {"16 ranks from a curve of 8"};
  report.assumptions = {"one = 1", "two = 2"};
  report.seed = 18446744073709551615ULL;
  report.versions = {{"rehearse", "0.1.0"}, {"simgrid", "3.32.0"}};
  return report;
}

/// RFC 4180, as a reader of it would.
inline std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
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

inline std::map<std::string, std::string> csv_row(const std::vector<Report>& reports,
                                                  std::size_t index) {
  const auto rows = parse_csv(to_csv(reports));
  std::map<std::string, std::string> row;
  for (std::size_t i = 0; i < rows[0].size(); ++i) row[rows[0][i]] = rows[index + 1].at(i);
  return row;
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace toy
