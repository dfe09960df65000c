#include "config/foreign_training.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/number.hpp"

namespace rehearse::inline config {
namespace {

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") + 1 - first));
}

/// The scalar behind `key:` at any depth, without its comment; nothing where the key is not there.
std::optional<std::string> yaml_value(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    const std::size_t begin = text.rfind('\n', at) + 1;  // 0 on the first line
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const bool alone = trimmed(text.substr(begin, at - begin)).empty();
    const std::size_t colon = at + key.size();
    if (!alone || colon >= end || text[colon] != ':') continue;
    std::string_view value = text.substr(colon + 1, end - colon - 1);
    return trimmed(value.substr(0, value.find(" #")));
  }
  return std::nullopt;
}

/// The word behind an option of a command line, as in `--seq-length 4096`.
std::optional<std::string> option(std::string_view text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t begin = text.find_first_not_of(" =\t", at + name.size());
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = text.find_first_of(" \t\r\n\\", begin);
  return std::string(text.substr(begin, std::min(end, text.size()) - begin));
}

/// A whole number above 0; else `instead`, a word that says what belongs there.
std::string whole(const std::optional<std::string>& value, const char* instead) {
  const bool number =
      value && !value->empty() && value->size() < 10 && *value != "0" &&
      std::ranges::all_of(*value, [](unsigned char c) { return std::isdigit(c) != 0; });
  return number ? *value : instead;
}

/// Of a strategy's options: micro-batches, where there are several.
std::string accumulation(const std::optional<std::string>& steps) {
  const std::string count = whole(steps, "1");
  return count == "1" ? "" : "gradient_accumulation: " + count;
}

/// What a key of a framework is called here.
struct Words {
  const char* sequence;
  const char* batch;
  const char* accumulation;
};

std::string model_and_strategy(std::string_view text, const Words& words,
                               const std::string& strategy) {
  const std::string steps = accumulation(yaml_value(text, words.accumulation));
  return fmt::format(
      "the same stands in four keys: model: {{use: NAME, sequence: {}, batch_per_gpu: {}}}, "
      "cluster: {{use: NAME, nodes: 1}}, strategy: {{{}: {{{}}}}}, optimizer: {{adamw: {{}}}}; "
      "`hf: FILE` in the place of `use` takes the model's config.json",
      whole(yaml_value(text, words.sequence), "TOKENS"),
      whole(yaml_value(text, words.batch), "SAMPLES"), strategy, steps);
}

/// FSDP, ZeRO or plain data parallelism, by which of their keys are there.
std::string strategy_of(std::string_view text) {
  if (yaml_value(text, "fsdp") || yaml_value(text, "fsdp_config")) return "fsdp";
  return yaml_value(text, "deepspeed") ? "zero" : "ddp";
}

std::optional<ForeignFile> yaml_configuration(std::string_view text) {
  const auto has = [&](std::string_view key) { return yaml_value(text, key).has_value(); };
  const auto is = [&](const char* what, const Words& words, const std::string& strategy) {
    return ForeignFile{what, model_and_strategy(text, words, strategy)};
  };
  if (has("base_model") && (has("micro_batch_size") || has("sequence_len") || has("adapter")))
    return is("an axolotl configuration",
              {"sequence_len", "micro_batch_size", "gradient_accumulation_steps"},
              strategy_of(text));
  if (has("model_name_or_path") && has("stage"))
    return is("a LLaMA-Factory configuration",
              {"cutoff_len", "per_device_train_batch_size", "gradient_accumulation_steps"},
              strategy_of(text));
  if (has("model_name_or_path") && has("per_device_train_batch_size"))
    return is("a configuration of Hugging Face's Trainer",
              {"max_length", "per_device_train_batch_size", "gradient_accumulation_steps"},
              strategy_of(text));
  if (has("_component_") && (has("tokenizer") || has("model")))
    return is("a torchtune configuration",
              {"max_seq_len", "batch_size", "gradient_accumulation_steps"}, "fsdp");
  if (!has("distributed_type")) return std::nullopt;
  const std::string type = yaml_value(text, "distributed_type").value_or("");
  const char* const strategy = type == "FSDP" ? "fsdp" : type == "DEEPSPEED" ? "zero" : "ddp";
  return ForeignFile{
      "a configuration of accelerate",
      fmt::format("the same stands in two keys: cluster: {{use: NAME, nodes: {}}}, strategy: "
                  "{{{}: {{}}}}; model and optimizer say what is trained",
                  whole(yaml_value(text, "num_machines"), "1"), strategy)};
}

ForeignFile megatron_command(std::string_view text) {
  const auto number = [&](const char* name, const char* instead) {
    return whole(option(text, name), instead);
  };
  return {
      "a command line of Megatron-LM",
      fmt::format("the same stands in four keys: model: {{transformer: {{layers: {}, "
                  "hidden_size: {}, heads: {}, intermediate_size: {}, vocab_size: WORDS}}, "
                  "sequence: {}, batch_per_gpu: {}}}, cluster: {{use: NAME, nodes: NODES}}, "
                  "strategy: {{ddp: {{}}, tensor_parallel: {}, pipeline_parallel: {}}}, train: "
                  "{{global_batch: {{sequences: {}}}}}",
                  number("--num-layers", "LAYERS"), number("--hidden-size", "WIDTH"),
                  number("--num-attention-heads", "HEADS"), number("--ffn-hidden-size", "WIDTH"),
                  number("--seq-length", "TOKENS"), number("--micro-batch-size", "SAMPLES"),
                  number("--tensor-model-parallel-size", "1"),
                  number("--pipeline-model-parallel-size", "1"),
                  number("--global-batch-size", "SEQUENCES"))};
}

/// The number behind a label of a log's line.
std::optional<double> labelled(std::string_view text, std::string_view label) {
  const std::size_t at = text.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  const std::size_t begin = text.find_first_not_of(' ', at + label.size());
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = text.find_first_of(" |\r\n", begin);
  return decimal_number(std::string(text.substr(begin, std::min(end, text.size()) - begin)));
}

ForeignFile megatron_log(std::string_view text) {
  const auto time = labelled(text, "elapsed time per iteration (ms):");
  const auto batch = labelled(text, "global batch size:");
  const bool known = time && batch && *time > 0;
  return {"a log of Megatron-LM",
          fmt::format("say what it reached beside the model: model: {{use: NAME, measured: "
                      "{{samples_per_s: {}}}}}",
                      known ? fmt::format("{:.4g}", *batch / *time * 1e3) : "NUMBER")};
}

}  // namespace

std::optional<ForeignFile> foreign_training(std::string_view text) {
  const auto has = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
  if (has("elapsed time per iteration (ms):")) return megatron_log(text);
  if (has("--micro-batch-size") && (has("--num-layers") || has("--tensor-model-parallel-size")))
    return megatron_command(text);
  return yaml_configuration(text);
}

}  // namespace rehearse::inline config
