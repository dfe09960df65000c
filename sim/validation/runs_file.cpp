#include "validation/runs_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/data_folder.hpp"
#include "validation/run_columns.hpp"

namespace rehearse::inline validation {
namespace {

/// Cases that name no scenario of their own begin here.
std::filesystem::path usual_scenario(const RunRow& row) {
  // A plain feed-forward layer is four times as wide as the model; a gated one is not.
  const auto hidden = row.whole("hidden"), inner = row.whole("ffn");
  const bool plain = hidden && inner && *inner == 4 * *hidden;
  return data_folder() / "scenarios/validation" /
         (plain ? "hybrid_parallel_gpt.yaml" : "hybrid_parallel_llama.yaml");
}

std::filesystem::path scenario_of(const RunRow& row) {
  const std::string own = row.text("scenario");
  return own.empty() ? usual_scenario(row) : (row.folder() / own).lexically_normal();
}

/// The measured figures of a run.
std::vector<Measurement> measured(const RunRow& row) {
  std::vector<Measurement> all;
  const auto gpus = row.number("gpus"), batch = row.number("global_batch"),
             tokens = row.number("seq_len"), rate = row.number("tokens_per_s_per_gpu");
  if (const auto time = row.number("step_time_s")) {
    all.push_back({"step_time_s", *time});
  } else if (rate && gpus && batch && tokens) {
    all.push_back({"step_time_s", *batch * *tokens / (*rate * *gpus)});
  } else if (rate) {
    all.push_back({"tokens_per_s_per_gpu", *rate});
  }
  if (const auto peak = row.number("peak_mem"))
    all.push_back({memory_metric(row), *peak * memory_unit(row)});
  const std::string outcome = row.choice("outcome", {"ok", "oom"});
  if (!outcome.empty()) all.push_back({kFits, outcome == "ok" ? 1.0 : 0.0});
  if (all.empty())
    row.fail("outcome", "nothing was measured of this run",
             "fill in step_time_s, tokens_per_s_per_gpu, peak_mem or outcome");
  return all;
}

ValidationCase case_of(const RunRow& row, std::size_t number) {
  ValidationCase one;
  one.name = row.text("row_id");
  if (one.name.empty()) one.name = fmt::format("run {}", number);
  one.group = row.text("source_id");
  one.note = row.text("notes");
  one.scenario = scenario_of(row);
  one.overrides = overrides_of(row);
  one.measured = measured(row);
  one.rivals = fmt::format("{}, {} {}, batch {}, {} tokens", row.text("model"), row.text("gpus"),
                           row.text("gpu"), row.text("global_batch"), row.text("seq_len"));
  return one;
}

}  // namespace

bool is_runs_file(const std::filesystem::path& file) { return file.extension() == ".csv"; }

CaseFile read_runs_file(const std::filesystem::path& file) {
  CaseFile result;
  result.name = file.stem().string();
  result.source = file.string();
  std::set<std::string> names;
  for (const RunRow& row : read_run_rows(file)) {
    ValidationCase& one = result.cases.emplace_back(case_of(row, result.cases.size() + 1));
    if (one.group.empty()) one.group = result.name;
    if (!names.insert(one.name).second)
      row.fail("row_id", fmt::format("two runs are called \"{}\"", one.name),
               "give each a name of its own");
  }
  return result;
}

}  // namespace rehearse::inline validation
