#include "config/foreign_training.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>

namespace rehearse::inline config {
namespace {

/// Whether `key:` or `"key":` stands there, at the front of a line, of a map or behind a comma.
bool has_key(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    std::size_t colon = at + key.size();
    std::size_t begin = at;
    const bool quoted = at > 0 && text[at - 1] == '"' && colon < text.size() && text[colon] == '"';
    if (quoted) {
      ++colon;
      --begin;
    }
    if (colon >= text.size() || text[colon] != ':') continue;
    const std::size_t before = begin == 0 ? text.npos : text.find_last_not_of(" \t", begin - 1);
    if (before == text.npos || text.substr(before, 1).find_first_of("\n\r{,-") == 0) return true;
  }
  return false;
}

ForeignFile configuration(const char* what, const char* format) {
  return {.what = what,
          .remedy = "`rehearse import config FILE --on NxCLUSTER` makes a scenario of it",
          .format = format};
}

ForeignFile log(const char* what, const char* format) {
  return {.what = what,
          .remedy = "`rehearse import log FILE --scenario SCENARIO` sets it beside a prediction",
          .format = format};
}

std::optional<ForeignFile> tree_configuration(std::string_view text) {
  const auto has = [&](std::initializer_list<std::string_view> all) {
    return std::ranges::all_of(all, [&](std::string_view key) { return has_key(text, key); });
  };
  if (has({"cluster", "strategy"})) return std::nullopt;  // a scenario of ours
  if (has({"base_model"}) &&
      (has({"micro_batch_size"}) || has({"sequence_len"}) || has({"adapter"})))
    return configuration("an axolotl configuration", "axolotl");
  if (has({"model_name_or_path", "stage"}))
    return configuration("a LLaMA-Factory configuration", "llama_factory");
  if (has({"distributed_type"}))
    return configuration("a configuration of accelerate", "accelerate");
  if (has({"per_device_train_batch_size"}))
    return configuration("a configuration of Hugging Face's Trainer", "trainer");
  if (has({"_component_"}) && (has({"tokenizer"}) || has({"model"})))
    return configuration("a torchtune configuration", "torchtune");
  if (has({"tensor_model_parallel_size"}))
    return configuration("a configuration of Megatron-LM, Megatron-Bridge or NeMo", "nemo");
  if (has({"device_train_microbatch_size"}) || has({"global_train_batch_size"}))
    return configuration("a configuration of llm-foundry", "llm_foundry");
  if (has({"zero_optimization"}) || has({"train_micro_batch_size_per_gpu"}))
    return configuration("a DeepSpeed configuration", "deepspeed");
  if (has({"training", "parallelism"}))
    return configuration("a configuration of torchtitan", "torchtitan");
  return std::nullopt;
}

}  // namespace

std::optional<ForeignFile> foreign_log(std::string_view text) {
  const auto has = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
  if (has("elapsed time per iteration (ms):") || has("elapsed time per iteration (s):"))
    return log("a log of Megatron-LM", "megatron_log");
  if (has(":::MLLOG")) return log("a log of MLPerf", "mlperf_log");
  const bool breakdown = has("time (ms) |") && (has(" forward: ") || has(" fwd: "));
  if (has("SamplesPerSec=") || has("iter time (s):") || breakdown)
    return log("a log of DeepSpeed", "deepspeed_log");
  if (has("train_step_timing in s")) return log("a log of NeMo", "nemo_log");
  if (has("tokens_per_second_per_gpu:")) return log("a log of torchtune", "torchtune_log");
  if (has(" throughput/batches_per_sec:")) return log("a log of Composer", "composer_log");
  if (has("loss:") && (has("tps:") || has("wps:")) && has("memory:"))
    return log("a log of torchtitan", "torchtitan_log");
  if (has("\"log_history\"") || has("train_steps_per_second"))
    return log("a log of Hugging Face's Trainer", "trainer_log");
  const std::string_view top = text.substr(0, text.find('\n'));
  if (top.find("utilization.gpu") != std::string_view::npos)
    return log("a CSV of nvidia-smi", "nvidia_smi_log");
  return std::nullopt;
}

std::optional<ForeignFile> foreign_training(std::string_view text, char first) {
  const auto has = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
  if (auto found = foreign_log(text)) return found;
  const bool is_tree = first == '{';
  if (!is_tree && (has("--micro-batch-size") || has("--tensor-model-parallel-size")) &&
      (has("--num-layers") || has("--tensor-model-parallel-size")))
    return configuration("a command line of Megatron-LM", "megatron");
  return tree_configuration(text);
}

}  // namespace rehearse::inline config
