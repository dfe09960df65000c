#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../scratch.hpp"
#include "validation/summary.hpp"

namespace fixtures {

using namespace rehearse;

/// A report of real steps of two workers; each test changes what it is about.
inline nlohmann::json step_report(const std::string& strategy = "ps-async") {
  return {{"schema", "rehearse.step/1"},
          {"strategy", strategy},
          {"model", "toy"},
          {"precision", "fp32"},
          {"hardware", "AMD EPYC"},
          {"date", "2026-11-20T20:36:56Z"},
          {"batch_per_rank", 8},
          {"per_rank",
           {{{"rank", 0}, {"step_times_s", {0.1, 0.3, 0.2}}, {"allocated_peak_bytes", 1024.0}},
            {{"rank", 1}, {"step_times_s", {0.6, 0.5, 0.4}}, {"allocated_peak_bytes", 2048.0}}}},
          {"staleness", {{"mean", 1.0}, {"histogram", {{"0", 1}, {"1", 2}, {"2", 1}}}}}};
}

/// The report of a simulation of the same.
inline nlohmann::json toy_report(const std::string& strategy = "ps asp") {
  return {{"strategy", strategy},
          {"model", "toy"},
          {"precision", "fp32"},
          {"batch_per_gpu", 8},
          {"ranks", 2},
          {"step_time_s", 0.28},
          {"memory", {{"allocated_peak_bytes", 2048}}},
          {"staleness", {{"mean", 1.25}, {"histogram", {{"0", 1}, {"1", 1}, {"2", 2}}}}}};
}

/// A number that was predicted as 1 + `error` where 1 was measured.
inline ComparedMetric number(const std::string& metric, double error,
                             std::optional<Ends<double>> interval = std::nullopt,
                             const std::string& group = "testbed") {
  return {.metric = metric,
          .group = group,
          .measured = 1,
          .predicted = 1 + error,
          .error = error,
          .interval = interval};
}

/// Puts a case into a file.
inline void add(ComparedFile& file, const std::string& name, const std::string& strategy,
                std::vector<ComparedMetric> metrics, bool held_out = true) {
  file.file.cases.push_back({.name = name,
                             .note = "",
                             .group = "testbed",
                             .held_out = held_out,
                             .scenario = {},
                             .overrides = {},
                             .measured = {},
                             .recorded = {},
                             .recorded_at = {}});
  file.cases.push_back({.strategy = strategy,
                        .metrics = std::move(metrics),
                        .code = ExitCode::success,
                        .failure = ""});
}

}  // namespace fixtures
