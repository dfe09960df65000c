#include "foreign/assemble.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "config/draft.hpp"
#include "planner/typed_question.hpp"
#include "scenario/named_network.hpp"

namespace rehearse::inline foreign {
namespace {

/// A fact's value: a map or a list is written as YAML's.
Draft drafted(const Fact& fact) {
  const bool has_parts = fact.value.starts_with('{') || fact.value.starts_with('[');
  return has_parts ? Draft::parsed(fact.value, fact.key) : Draft(fact.value);
}

void put_model(const Facts& facts, const Asked& asked, Draft& model) {
  if (!asked.model.empty()) {
    const bool is_file =
        asked.model.find('/') != std::string::npos || asked.model.ends_with(".json");
    model.set(is_file ? "hf" : "use", asked.model);
  }
  for (const auto& [key, fact] : facts)
    if (key.starts_with("model.")) model.set(key.substr(6), drafted(fact));
  model.set("batch_per_gpu", value_of(facts, "micro_batch"));
}

/// Nodes of the kind that `--on` names, for as many GPUs as the file has.
void put_cluster(const Facts& facts, const Asked& asked, const std::string& name, Draft& root) {
  const Cluster named = typed_cluster(asked.on, "--on");
  const auto known = static_cast<std::int64_t>(named.gpu_count());
  const std::int64_t gpus = count_of(facts, "gpus");
  std::int64_t nodes = 0;
  std::string kind = asked.on;
  if (asked.on.starts_with('{')) {
    root.set("cluster", Draft::parsed(asked.on, "--on"));
    return;
  }
  if (says_how_many(asked)) {
    const std::size_t digits = asked.on.find('x');
    nodes = std::stoll(asked.on.substr(0, digits));
    kind = asked.on.substr(digits + 1);
  } else if (gpus > 0) {
    if (known == 0 || gpus % known != 0)
      throw InputError(
          fmt::format("{}: error: {} GPUs are no whole number of nodes of {}, which have {}\n"
                      "remedy: say the machines with --on, such as --on '{{use: {}, gpus_per_node: "
                      "{}, nodes: 1}}'",
                      name, gpus, asked.on, known, asked.on, gpus));
    nodes = gpus / known;
  }
  root.set("cluster.use", kind);
  if (nodes > 0) root.set("cluster.nodes", nodes);
}

[[noreturn]] void fail_at_fact(const Fact& fact, const std::string& message,
                               const std::string& remedy) {
  fail_at(fact.place, fmt::format("{}: {}", fact.key, message), remedy);
}

/// The mesh has all ranks (torchtitan's ParallelDims, accelerate's ParallelismConfig), and a batch
/// is its micro-batches (DeepSpeed's _batch_assertion).
void check_ranks(const Facts& facts, const Asked& asked) {
  std::int64_t replica = 1;
  for (const char* degree :
       {"tensor_parallel", "pipeline_parallel", "context_parallel", "context_parallel.degree"})
    replica *= std::max<std::int64_t>(1, count_of(facts, std::string("strategy.") + degree));
  const std::int64_t gpus = gpus_of(facts, asked);
  const auto shards = facts.find("shards");
  if (shards != facts.end() && shards->second.place.source) {
    const std::int64_t of_each = std::max<std::int64_t>(1, count_of(facts, "replicas"));
    const std::int64_t ranks = count_of(facts, "shards") * of_each * replica;
    if (ranks > 0 && ranks != gpus)
      fail_at_fact(
          shards->second,
          fmt::format("all degrees together are of {} ranks, and the machines have {} GPUs", ranks,
                      gpus),
          "say machines with as many GPUs with --on, or change a degree");
  }
  const auto batch = facts.find("global_batch");
  const auto steps = facts.find("accumulation");
  if (batch == facts.end() || steps == facts.end() || !batch->second.place.source ||
      !steps->second.place.source || gpus % replica != 0)
    return;
  const std::int64_t parts =
      count_of(facts, "micro_batch") * count_of(facts, "accumulation") * (gpus / replica);
  if (parts > 0 && count_of(facts, "global_batch") != parts)
    fail_at_fact(batch->second,
                 fmt::format("{} samples are not {} x {} of each of {} replicas",
                             count_of(facts, "global_batch"), count_of(facts, "micro_batch"),
                             count_of(facts, "accumulation"), gpus / replica),
                 fmt::format("--accumulation {} leaves it out, and keeps the rest",
                             count_of(facts, "accumulation")));
}

bool in_parts_of(const Facts& facts) {
  for (const char* key : {"tensor_parallel", "pipeline_parallel", "context_parallel",
                          "context_parallel.degree", "expert_parallel"})
    if (count_of(facts, std::string("strategy.") + key) > 1) return true;
  return false;
}

/// A degree of 1 is as none, but where the default is another: Megatron-LM's experts are shared by
/// the tensor ranks.
bool says_nothing(const std::string& key, const std::string& value) {
  return value == "1" && !key.ends_with("expert_tensor_parallel") &&
         (key.ends_with("_parallel") || key == "strategy.context_parallel.degree" ||
          key == "strategy.pipeline.virtual_stages");
}

/// A recipe for a single GPU shards nothing.
void leave_alone(const Asked& asked, Facts& facts) {
  const bool alone = facts.erase("one_gpu_alone") > 0 && !asked.on.empty() &&
                     typed_cluster(asked.on, "--on").gpu_count() == 1;
  if (!alone) return;
  say(facts, "sync", "ddp");
  std::erase_if(facts, [](const auto& fact) { return fact.first.starts_with("sync."); });
}

/// Composer takes no more samples at a time than a GPU has of a step (llm-foundry's
/// update_batch_size_info).
void fit_micro_batch(Facts& facts, const Asked& asked) {
  if (facts.erase("micro_batch_at_most") == 0 || !has(facts, "global_batch")) return;
  std::int64_t gpus = count_of(facts, "gpus");
  if (gpus == 0) gpus = static_cast<std::int64_t>(typed_cluster(asked.on, "--on").gpu_count());
  const std::int64_t batch = count_of(facts, "global_batch");
  if (gpus > 0 && batch % gpus == 0 && batch / gpus < count_of(facts, "micro_batch"))
    say(facts, "micro_batch", std::to_string(batch / gpus));
}

void put_strategy(const Facts& facts, Draft& root) {
  const std::string sync = has(facts, "sync") ? value_of(facts, "sync") : "ddp";
  const std::string options = "strategy." + sync;
  root.set(options, Draft::map());
  for (const auto& [key, fact] : facts)
    if (key.starts_with("sync.")) root.set(options + key.substr(4), drafted(fact));
  for (const auto& [key, fact] : facts) {
    if (!key.starts_with("strategy.") || says_nothing(key, fact.value)) continue;
    const bool inner_of_one = key.starts_with("strategy.context_parallel.") &&
                              count_of(facts, "strategy.context_parallel.degree") <= 1;
    if (!inner_of_one) root.set(key, drafted(fact));
  }
  const std::string steps = value_of(facts, "accumulation");
  if (has(facts, "global_batch"))
    root.set("train.global_batch.sequences", value_of(facts, "global_batch"));
  else if (count_of(facts, "accumulation") > 1)
    root.set(in_parts_of(facts) ? "strategy.micro_batches" : options + ".gradient_accumulation",
             steps);
}

}  // namespace

const std::string& Asked::option(const std::string& name) const {
  static const std::string kNone;
  return name == "on"             ? on
         : name == "model"        ? model
         : name == "sequence"     ? sequence
         : name == "batch"        ? batch
         : name == "precision"    ? precision
         : name == "accumulation" ? accumulation
         : name == "lengths"      ? lengths
                                  : kNone;
}

void answer(const Asked& asked, Facts& facts) {
  const auto drop = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) facts.erase(name);
  };
  if (!asked.model.empty())
    std::erase_if(facts, [](const auto& fact) {
      return fact.first.starts_with("model.transformer.") || fact.first == "model.hf" ||
             fact.first == "model.use" || fact.first == "model.captured";
    });
  const std::string network = !asked.model.empty()     ? asked.model
                              : has(facts, "model.hf") ? value_of(facts, "model.hf")
                                                       : value_of(facts, "model.use");
  if (const auto known = network.empty() ? std::nullopt : known_transformer(network)) {
    say(facts, "network_layers", std::to_string(known->layers));
    say(facts, "network_linears", fmt::format("[{}]", fmt::join(known->linears, ", ")));
  }
  if (!asked.sequence.empty()) {
    say(facts, "model.sequence", asked.sequence);
    drop({"longest"});
  }
  if (!asked.batch.empty()) {
    say(facts, "micro_batch", asked.batch);
    drop({"micro_tokens", "micro_batch_at_most"});
  }
  // bf16 and fp16 are the framework's own mixed precision, whatever it keeps beside it.
  const bool mixed = asked.precision == "bf16" || asked.precision == "fp16";
  if (!asked.precision.empty()) {
    drop({"amp", "dtype", "tf32", "model.precision"});
    say(facts, mixed ? "amp" : "model.precision", asked.precision);
  }
  if (!asked.accumulation.empty()) {
    say(facts, "accumulation", asked.accumulation);
    drop({"global_batch"});
  }
}

std::int64_t gpus_of_file(const Facts& facts) {
  if (const std::int64_t gpus = count_of(facts, "gpus"); gpus > 0) return gpus;
  return std::max<std::int64_t>(1, count_of(facts, "nodes")) * count_of(facts, "gpus_per_node");
}

bool says_how_many(const Asked& asked) {
  const std::size_t digits = asked.on.find_first_not_of("0123456789");
  return asked.on.starts_with('{') ||
         (digits > 0 && digits < asked.on.size() && asked.on[digits] == 'x');
}

std::int64_t gpus_of(const Facts& facts, const Asked& asked) {
  const std::int64_t gpus = gpus_of_file(facts);
  if (gpus > 0 && !says_how_many(asked)) return gpus;
  return static_cast<std::int64_t>(typed_cluster(asked.on, "--on").gpu_count());
}

std::vector<Missing> missing_of(const Facts& facts, const Asked& asked) {
  std::vector<Missing> missing;
  const std::string dims = "model.transformer.";
  const bool named = has(facts, "model.hf") || has(facts, "model.use") || !asked.model.empty();
  const bool shaped = has(facts, dims + "layers") || has(facts, dims + "hidden_size") ||
                      has(facts, dims + "heads") || has(facts, dims + "hybrid_override_pattern");
  const char* const remedy = "--model NAME (`rehearse list models`), or --model config.json";
  if (!named && !shaped) missing.push_back({"which model is trained", remedy});
  for (const auto& [key, what] : {std::pair("layers", "how many layers the network has"),
                                  std::pair("hidden_size", "how wide the network is"),
                                  std::pair("heads", "how many heads the network has"),
                                  std::pair("vocab_size", "how many words the vocabulary has")})
    if (!named && shaped && !has(facts, dims + key)) missing.push_back({what, remedy});
  if (!has(facts, "micro_batch") && !has(facts, "micro_tokens"))
    missing.push_back({"how many samples a GPU takes at a time", "--batch N"});
  if (has(facts, "rl.algorithm") && asked.lengths.empty())
    missing.push_back({"how long prompts and responses are",
                       "--lengths PROMPT,RESPONSE of `rehearse import config`, mean tokens"});
  if (asked.on.empty())
    missing.push_back({"which machines train",
                       "--on 4xaws_p5, nodes of a kind that `rehearse list clusters` has"});
  return missing;
}

std::string assemble(Facts facts, const std::string& framework, const Asked& asked,
                     const std::string& name) {
  fit_micro_batch(facts, asked);
  fill_post_training(facts, asked, name);
  derive(facts, framework);
  leave_alone(asked, facts);
  check_ranks(facts, asked);
  Draft root;
  root.set("description", fmt::format("imported from {}", name));
  const std::string version = value_of(facts, "framework_version");
  if (version.empty())
    root.set("framework", framework);
  else
    root.set("framework." + framework, version);
  put_model(facts, asked, root.at("model"));
  put_cluster(facts, asked, name, root);
  if (has(facts, "rl_trainer_nodes"))
    root.set("cluster.nodes", value_of(facts, "rl_trainer_nodes"));
  put_strategy(facts, root);
  const std::string optimizer =
      "optimizer." + (has(facts, "opt") ? value_of(facts, "opt") : "adamw");
  root.set(optimizer, Draft::map());
  for (const auto& [key, fact] : facts) {
    if (key.starts_with("opt.")) root.set(optimizer + key.substr(3), drafted(fact));
    const bool of_cluster = key.starts_with("cluster.") && !asked.on.starts_with('{');
    if (key == "train.samples") {
      root.set("train.samples_per_epoch", drafted(fact));
      root.set("train.epochs", "1");
    } else if (key.starts_with("rl.") || key.starts_with("train.") || key.starts_with("run.") ||
               key.starts_with("memory.") || of_cluster) {
      root.set(key, drafted(fact));
    }
  }
  return root.block();
}

}  // namespace rehearse::inline foreign
