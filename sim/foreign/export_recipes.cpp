// A scenario's facts, as recipes that name a network of the hub have them.
#include "foreign/export_recipes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "foreign/assemble.hpp"
#include "model/adaptation.hpp"
#include "scenario/hub.hpp"

namespace rehearse::inline foreign {
namespace {

/// A hub's id, or the folder of a config.json.
void name_network(const Scenario& scenario, const Format& format, Facts& facts) {
  std::string id = value_of(facts, "model.hf");
  if (id.empty()) id = hub_id_of(value_of(facts, "model.use"));
  if (id.ends_with("/config.json")) id.erase(id.rfind('/'));
  if (id.empty() || id.starts_with('{'))
    throw InputError(
        fmt::format("{}: error: {} names a network of the hub, and this one has no id there\n"
                    "remedy: write model: {{hf: ID}}, or hf: FOLDER with its config.json",
                    scenario.file, format.title));
  if (facts.erase("model.use") > 0) say(facts, "built_in", "true");
  say(facts, "model.hf", id);
}

/// Autocast and the parameters' own type. Returns a note where the recipe has others.
std::vector<std::string> fill_types(const Format& format, Facts& facts) {
  const std::string said =
      has(facts, "model.precision") ? value_of(facts, "model.precision") : "fp32";
  static const std::map<std::string, std::pair<const char*, const char*>> kTypes = {
      {"fp32", {"no", "fp32"}},          {"tf32", {"no", "fp32"}},
      {"bf16", {"bf16", "fp32"}},        {"fp16", {"fp16", "fp32"}},
      {"bf16_pure", {"no", "bf16"}},     {"bf16_pure_autocast", {"bf16", "bf16"}},
      {"bf16_master", {"bf16", "fp32"}}, {"fp16_master", {"fp16", "fp32"}}};
  const auto types = kTypes.find(said);
  if (types == kTypes.end()) return {};
  auto [amp, dtype] = std::pair<std::string, std::string>(types->second);
  // axolotl loads weights in bf16 wherever it computes in bf16, and torchtune has no autocast.
  if (format.name == "axolotl" && amp == "bf16") dtype = "bf16";
  if (format.name == "torchtune" && amp != "no") dtype = "bf16";
  if (format.name == "torchtune") amp = "no";
  Facts again;
  say(again, "sync", value_of(facts, "sync"));
  say(again, "amp", amp);
  say(again, "dtype", dtype);
  if (said == "tf32") say(again, "tf32", "true");
  say(facts, "amp", amp);
  say(facts, "dtype", dtype);
  if (said == "tf32") say(facts, "tf32", "true");
  fill_precision(again, value_of(facts, "sync") == "zero" ? "deepspeed" : format.framework);
  std::vector<std::string> notes;
  const std::string kind = "strategy." + value_of(facts, "sync") + ".param_dtype";
  const std::string read = value_of(again, "model.precision");
  const std::string gathered = value_of(again, "sync.param_dtype");
  if (read != said)
    notes.push_back(
        fmt::format("model.precision: {} is {} in {}; --set model.precision={} predicts it", said,
                    read, format.title, read));
  if (gathered != value_of(facts, "sync.param_dtype") && !gathered.empty())
    notes.push_back(fmt::format("{}: parameters are gathered in {} there; --set {}={} predicts it",
                                kind, gathered, kind, gathered));
  if (gathered == value_of(facts, "sync.param_dtype") || !gathered.empty())
    facts.erase("sync.param_dtype");
  facts.erase("model.precision");
  return notes;
}

/// Kernels of the optimizer and clipping, where a recipe's defaults are others than a scenario's.
void fill_optimizer(const Format& format, Facts& facts) {
  if (format.name == "torchtune") {
    if (value_of(facts, "opt.clip_grad") == "0") facts.erase("opt.clip_grad");
    return;
  }
  for (const auto& [name, as] : {std::pair("opt.fused", "false"), std::pair("opt.clip_grad", "0")})
    if (!has(facts, name)) say(facts, name, as);
}

/// Modules of PEFT, or of torchtune, whose last product of attention has a name of its own.
/// torchtune adapts all products of an MLP or none, which a note says where it is not as asked.
std::vector<std::string> fill_adapted(const Format& format, Facts& facts) {
  const std::string rank = "model.lora.rank";
  const bool adapted = std::ranges::any_of(
      facts, [](const auto& fact) { return fact.first.starts_with("model.lora"); });
  if (!adapted) return {};
  facts.erase("model.lora");
  if (!has(facts, rank)) say(facts, rank, "8");
  const bool in_4bit = value_of(facts, "model.quantization").find("nf4") != std::string::npos;
  say(facts, "adapter", format.name == "axolotl" && in_4bit ? "qlora" : "lora");
  const std::string targets = "model.lora.targets";
  std::string said = has(facts, targets) ? value_of(facts, targets) : "[q, v]";
  if (said.find("all") != std::string::npos) return {};
  std::erase_if(said, [](char c) { return c == '[' || c == ']' || c == ' '; });
  std::string named;
  int in_mlp = 0;
  for (std::size_t at = 0; at < said.size();) {
    const std::size_t end = std::min(said.find(',', at), said.size());
    const std::string layer = linear_name(said.substr(at, end - at));
    const bool of_mlp = layer == "gate" || layer == "up" || layer == "down";
    if (format.name == "torchtune" && (of_mlp || layer == "lm_head")) {
      say(facts, of_mlp ? "lora.mlp" : "lora.head", "true");
      in_mlp += of_mlp ? 1 : 0;
      at = end + 1;
      continue;
    }
    const bool is_output = format.name == "torchtune" && layer == "o";
    named += (named.empty() ? "" : ", ") + (is_output            ? "output_proj"
                                            : layer == "lm_head" ? layer
                                                                 : layer + "_proj");
    at = end + 1;
  }
  say(facts, targets, "[" + named + "]");
  constexpr int kProducts = 3;
  if (in_mlp == 0 || in_mlp == kProducts) return {};
  return {"model.lora.targets: torchtune adapts gate, up and down together"};
}

/// Whose tokenizer and checkpoints a family of torchtune has.
void say_family(const std::string& family, Facts& facts) {
  static const std::map<std::string, const char*> kTokenizers = {{"code_llama2", "llama2"},
                                                                 {"llama3_1", "llama3"},
                                                                 {"llama3_2", "llama3"},
                                                                 {"llama3_3", "llama3"},
                                                                 {"gemma2", "gemma"}};
  static const std::map<std::string, const char*> kCheckpoints = {{"code_llama2", "llama2"},
                                                                  {"llama3_1", "llama3"},
                                                                  {"llama3_3", "llama3"},
                                                                  {"qwen2_5", "qwen2"}};
  const auto of = [&](const auto& others) {
    const auto found = others.find(family);
    return found == others.end() ? family : std::string(found->second);
  };
  say(facts, "family", of(kTokenizers));
  say(facts, "kind", of(kCheckpoints));
  if (family.starts_with("qwen")) say(facts, "words", "of_qwen");
}

/// torchtune's builder of a network, by its family: "torchtune.models.llama3_1.lora_llama3_1_8b".
void fill_builder(const Scenario& scenario, const Format& format, Facts& facts) {
  const std::string id = value_of(facts, "model.hf");
  const auto network = hub_network(id);
  const auto same = [&](const std::string& other) {
    if (other == id) return true;
    const auto found = hub_network(other);
    return network && found && !network->built_in.empty() && network->built_in == found->built_in;
  };
  std::string known;
  for (const bool exactly : {true, false})
    for (const Rule& rule : format.rules)
      for (const auto& [builder, called] : rule.values) {
        if (rule.key != "model._component_" || !rule.contains.empty()) continue;
        if (exactly ? called != id : !same(called)) continue;
        const std::size_t dot = builder.find('.');
        say_family(builder.substr(0, dot), facts);
        say(facts, "builder",
            fmt::format("torchtune.models.{}.{}{}", builder.substr(0, dot),
                        has(facts, "adapter") ? "lora_" : "", builder.substr(dot + 1)));
        facts.erase("model.hf");
        return;
      }
  throw InputError(fmt::format(
      "{}: error: torchtune has no builder of {}\n"
      "remedy: --set model.{}, or another network that it has",
      scenario.file, id, has(facts, "built_in") ? "use=llama_3_8b" : "hf=meta-llama/Llama-3.1-8B"));
}

/// Which of the strategies a recipe has, and what of it stands in another file.
std::vector<std::string> fill_strategy(const Scenario& scenario, const Format& format,
                                       Facts& facts) {
  const std::string sync = value_of(facts, "sync");
  const bool tune = format.name == "torchtune";
  const bool alone = sync == "ddp" && value_of(facts, "gpus") == "1";
  const bool known =
      tune ? sync == "fsdp2" || alone : sync == "ddp" || sync == "zero" || sync.starts_with("fsdp");
  if (!known)
    throw InputError(
        fmt::format("{}: error: {} has no strategy {}\nremedy: --set 'strategy={{{}: {{}}}}'",
                    scenario.file, format.title, sync, tune ? "fsdp2" : "ddp"));
  if (sync == "fsdp" && !has(facts, "sync.wrap")) say(facts, "sync.wrap", "blocks");
  fill_shards(facts);
  if (sync != "zero") return {};
  std::erase_if(facts, [](const auto& fact) { return fact.first.starts_with("sync."); });
  return {"strategy.zero stands in ds_config.json, which `rehearse export deepspeed` writes"};
}

}  // namespace

bool is_recipe(const std::string& format) {
  return format == "axolotl" || format == "trl" || format == "torchtune";
}

std::vector<std::string> fill_recipe(const Scenario& scenario, const Format& format, Facts& facts) {
  std::vector<std::string> notes = fill_types(format, facts);
  name_network(scenario, format, facts);
  const std::vector<std::string> elsewhere = fill_strategy(scenario, format, facts);
  notes.insert(notes.end(), elsewhere.begin(), elsewhere.end());
  fill_optimizer(format, facts);
  const std::vector<std::string> adapted = fill_adapted(format, facts);
  notes.insert(notes.end(), adapted.begin(), adapted.end());
  if (format.name == "torchtune") fill_builder(scenario, format, facts);
  if (value_of(facts, "model.loss") == "cross_entropy") facts.erase("model.loss");
  if (format.name == "trl" && !has(facts, "model.activation_checkpointing"))
    say(facts, "model.activation_checkpointing", "none");
  if (value_of(facts, "model.sequence").starts_with('{')) {
    notes.push_back("model.sequence: samples are packed, and documents are the dataset's");
    say(facts, "packed", "true");
    say(facts, "model.sequence", std::to_string(scenario.model.tokens_per_sample));
    std::erase_if(facts, [](const auto& f) { return f.first.starts_with("model.sequence."); });
  }
  return notes;
}

}  // namespace rehearse::inline foreign
