#include "foreign/export_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/number.hpp"
#include "base/quoting.hpp"
#include "config/json/json_text.hpp"
#include "foreign/export_checks.hpp"
#include "foreign/export_facts.hpp"

namespace rehearse::inline foreign {
namespace {

std::string in_quotes(const std::string& value) { return json_text(nlohmann::json(value)); }

/// Writes rules backwards: settings whose facts are these.
class Writer {
 public:
  Writer(Facts facts, const Format& format) : facts_(std::move(facts)), format_(format) {}

  SettingList settings() {
    // A rule may stand on what a later one writes.
    for (bool wrote = true; wrote;) {
      wrote = false;
      for (const Rule& rule : format_.rules) wrote = take(rule) || wrote;
    }
    for (const auto& [key, value] : format_.always) write_unless(key, value);
    return std::move(settings_);
  }

  /// Facts of a scenario that no setting says.
  std::vector<std::string> unsaid() const {
    std::vector<std::string> names;
    for (const auto& [name, fact] : facts_) {
      const bool own = name.starts_with("model.") || name.starts_with("strategy.") ||
                       name.starts_with("sync.") || name.starts_with("opt.");
      const auto below = [&](const std::string& one) { return one.starts_with(name + "."); };
      const auto above = [&](const std::string& one) { return name.starts_with(one + "."); };
      const bool said = said_.contains(name) || std::ranges::any_of(said_, below) ||
                        std::ranges::any_of(said_, above) || is_default(name, fact.value);
      const bool is_map = fact.value.starts_with('{');
      const bool repeats =
          name == "accumulation" && fact.value != "1" && !said_.contains("global_batch");
      if ((own || repeats) && !said && !is_map)
        names.push_back(fmt::format("{}: {}", name, fact.value));
    }
    return names;
  }

 private:
  bool is_default(const std::string& name, const std::string& value) const {
    for (const auto& [fact, as] : format_.defaults)
      if (fact == name) return as == value;
    // Megatron-LM's experts are shared by the tensor ranks where nobody says how many.
    return value == "1" && name.ends_with("_parallel") && !name.ends_with("expert_tensor_parallel");
  }

  void write(const std::string& key, const std::string& value) {
    settings_.emplace_back(key, value);
    written_[key] = value;
  }

  /// `train_samples|train_iters`: the first, unless one of them stands there.
  void write_unless(const std::string& keys, const std::string& value) {
    for (std::size_t at = 0; at < keys.size();) {
      const std::size_t end = std::min(keys.find('|', at), keys.size());
      if (written_.contains(keys.substr(at, end - at))) return;
      at = end + 1;
    }
    write(keys.substr(0, keys.find('|')), value);
  }

  bool take(const Rule& rule) {
    if (&rule >= format_.rules.data() + format_.written_rules) return false;
    const bool writes = !rule.reads_only && !rule.none && rule.asks.empty() &&
                        rule.contains.empty() && !rule.key.ends_with('*') &&
                        !rule.key.starts_with("sbatch.") &&
                        (format_.name == "megatron" || !rule.key.starts_with("launcher."));
    if (!writes || written_.contains(rule.key) || !holds(rule.when, written_)) return false;
    const auto is = [&](const auto& one) { return value_of(facts_, one.first) == one.second; };
    if (!std::ranges::all_of(rule.set, is)) return false;
    std::string value = rule.is.empty() ? "" : rule.is.front();
    if (!rule.to.empty()) {
      if (!has(facts_, rule.to) || said_.contains(rule.to)) return false;
      value = value_of(facts_, rule.to);
      if (!rule.values.empty()) {
        const auto called =
            std::ranges::find_if(rule.values, [&](const auto& one) { return one.second == value; });
        if (called == rule.values.end()) return false;
        value = called->first;
      }
    } else if (rule.set.empty() || value.empty()) {
      return false;
    }
    if (rule.to.empty() && std::ranges::all_of(rule.set, [&](const auto& one) {
          return is_default(one.first, one.second) && value == "false";
        }))
      return false;
    write(rule.key, rule.kind == Rule::Kind::count_word ? in_quotes(value) : value);
    if (!rule.to.empty()) said_.insert(rule.to);
    for (const auto& [name, as] : rule.set) said_.insert(name);
    return true;
  }

  Facts facts_;
  const Format& format_;
  SettingList settings_;
  std::map<std::string, std::string> written_;
  std::set<std::string> said_;
};

bool is_bare(const std::string& value) {
  return value == "true" || value == "false" || decimal_number(value).has_value();
}

/// A value as TOML, JSON and YAML have it alike; lists keep their words in quotes, and lists of
/// maps are JSON already.
std::string typed(const std::string& value) {
  if (value == "null") return "null";
  if (is_bare(value) || value.starts_with('"')) return value;
  if (value.starts_with("[{")) return value;
  if (!value.starts_with('[')) return in_quotes(value);
  std::string text = "[";
  for (std::size_t at = 1; at < value.size() && value.size() > 2;) {
    const std::size_t end = std::min(value.find_first_of(",]", at), value.size());
    text += (text.size() > 1 ? ", " : "") + typed(value.substr(at, end - at));
    at = value.find_first_not_of(", ", end);
    if (at == std::string::npos || value[at] == ']') break;
  }
  return text + "]";
}

/// A list's items, as a command takes several values: "[a, b]" is "a b".
std::string words_of(std::string list) {
  std::erase_if(list, [](char c) { return c == '[' || c == ']' || c == ','; });
  return list;
}

std::string as_script(const CheckedSettings& made, const Scenario& scenario, bool names_version) {
  std::string launcher, options, environment;
  bool hybrid = false;
  for (const auto& [key, value] : made.settings) {
    const bool of_launcher = key.starts_with("launcher.");
    hybrid = hybrid || key == "hybrid_layer_pattern";
    std::string name = of_launcher ? key.substr(9) : key;
    if (!of_launcher) std::ranges::replace(name, '_', '-');
    const std::string word =
        value == "true" ? fmt::format("--{}", name)
        : value.starts_with('[')
            ? fmt::format("--{} {}", name, words_of(value))
            : fmt::format("--{} {}", name, shell_quoted(value == "null" ? "none" : value));
    if (of_launcher)
      launcher += " " + word;
    else if (value != "false")
      options += fmt::format(" \\\n  {}", word);
  }
  for (const auto& [name, value] : made.environment)
    environment += fmt::format("export {}={}\n", name, value);
  return fmt::format("#!/bin/bash\n# {}\n# {} {}{}\n{}torchrun{} {}{}\n",
                     scenario.description.empty() ? scenario.file : scenario.description,
                     scenario.framework.title, scenario.framework.version,
                     names_version ? "" : " and later", environment, launcher,
                     hybrid ? "pretrain_hybrid.py" : "pretrain_gpt.py", options);
}

std::string as_toml(const SettingList& settings) {
  std::map<std::string, std::string> tables;
  for (const auto& [key, value] : settings) {
    const std::size_t dot = key.rfind('.');
    // TOML has no null: torchtitan's word is "none".
    tables[key.substr(0, dot)] += fmt::format("{} = {}\n", key.substr(dot + 1),
                                              value == "null" ? in_quotes("none") : typed(value));
  }
  std::string text;
  for (const auto& [name, lines] : tables)
    text += fmt::format("{}[{}]\n{}", text.empty() ? "" : "\n", name, lines);
  return text;
}

nlohmann::ordered_json as_tree(const SettingList& settings) {
  nlohmann::ordered_json tree = nlohmann::ordered_json::object();
  for (const auto& [key, value] : settings) {
    nlohmann::ordered_json* at = &tree;
    std::size_t from = 0;
    for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', from)) {
      at = &(*at)[key.substr(from, dot - from)];
      from = dot + 1;
    }
    (*at)[key.substr(from)] = parsed_ordered_json(typed(value));
  }
  return tree;
}

std::string as_yaml(const nlohmann::ordered_json& tree, const std::string& indent) {
  std::string text;
  for (const auto& [key, value] : tree.items())
    text += value.is_object() ? fmt::format("{}{}:\n{}", indent, key, as_yaml(value, indent + "  "))
                              : fmt::format("{}{}: {}\n", indent, key, json_text(value));
  return text;
}

void check_framework(const Scenario& scenario, const Format& format) {
  const std::string& name = scenario.framework.name;
  // accelerate launches DeepSpeed, too, and so do recipes of the Trainer.
  const bool launches =
      format.name == "accelerate" || format.name == "axolotl" || format.name == "trl";
  if (name == format.framework || (launches && name == "deepspeed")) return;
  throw InputError(
      fmt::format("{}: error: the scenario's framework is {}, and {} is for {}\n"
                  "remedy: --set framework={}, where that framework has its strategy",
                  scenario.file, name, format.title, format.framework, format.framework));
}

/// torchtitan trains its own networks alone, which it calls flavours.
void check_flavour(const SettingList& settings, const Scenario& scenario, const Format& format) {
  const auto is_flavour = [](const auto& one) { return one.first == "model.flavor"; };
  if (std::ranges::any_of(settings, is_flavour)) return;
  std::string known;
  for (const Rule& rule : format.rules)
    for (const auto& [fact, network] : rule.set)
      if (rule.key == "model.flavor" && fact == "model.use")
        known += (known.empty() ? "" : ", ") + network;
  throw InputError(
      fmt::format("{}: error: torchtitan has no flavour of this network\n"
                  "remedy: --set model.use=llama_3_8b, or another of {}",
                  scenario.file, known));
}

/// Weights of 4 or 8 bits that the format cannot say: its file would train with whole ones.
void check_quantization(const std::vector<std::string>& unsaid, const Scenario& scenario,
                        const Format& format) {
  const std::string key = "model.quantization";
  const auto found =
      std::ranges::find_if(unsaid, [&](const std::string& one) { return one.starts_with(key); });
  if (found == unsaid.end()) return;
  std::string known;
  for (const Rule& rule : format.rules)
    for (const auto& [fact, value] : rule.set)
      if (fact == key && known.find(value) == std::string::npos)
        known += fmt::format("{}--set '{}={}'", known.empty() ? "" : " or ", key, value);
  throw InputError(fmt::format(
      "{}: error: {} has no word for {}, and would train whole weights\n"
      "remedy: {}",
      scenario.file, format.title, *found, known.empty() ? "remove it from the model" : known));
}

/// What a reader of the file gets that the scenario does not have.
std::vector<std::string> notes_of(const Facts& facts, const Format& format,
                                  const SettingList& settings, const std::set<std::string>& said) {
  std::vector<std::string> notes;
  const bool mixes = format.name == "accelerate" && has(facts, "amp") &&
                     value_of(facts, "sync").starts_with("fsdp");
  if (mixes && !said.contains("strategy." + value_of(facts, "sync") + ".param_dtype"))
    notes.push_back(
        fmt::format("strategy.{}.param_dtype: accelerate computes with parameters in {}, "
                    "and gathers these; --set strategy.{}.param_dtype={} predicts it",
                    value_of(facts, "sync"), value_of(facts, "amp"), value_of(facts, "sync"),
                    value_of(facts, "amp")));
  if (format.name == "nemo" && value_of(facts, "model.transformer.activation") == "swiglu")
    notes.push_back("activation_func stays the recipe's: a YAML names no function, such as silu");
  if (format.name != "megatron") return notes;
  const std::map<std::string, std::string> all(settings.begin(), settings.end());
  const auto at = [&](const char* key) {
    const auto found = all.find(key);
    return found == all.end() ? std::string() : found->second;
  };
  if (!has(facts, "train.steps") && !has(facts, "train.samples"))
    notes.push_back(
        fmt::format("the scenario does not say how long it trains: --train-iters {} stands there",
                    at("train_iters")));
  else if (has(facts, "train.tokens") || has(facts, "train.epochs"))
    notes.push_back(fmt::format("--train-samples {}: whole samples of {} tokens",
                                at("train_samples"), at("seq_length")));
  const std::int64_t words = count_of(facts, "model.transformer.vocab_size");
  const std::int64_t ranks = std::max<std::int64_t>(1, count_of(facts, "strategy.tensor_parallel"));
  if (words % ranks != 0)
    notes.push_back(fmt::format(
        "model.transformer.vocab_size: Megatron-LM makes {} of {}, so that {} tensor ranks have "
        "equal parts",
        (words + ranks - 1) / ranks * ranks, words, ranks));
  return notes;
}

}  // namespace

const std::vector<std::string>& exported_formats() {
  static const std::vector<std::string> names = {
      "megatron", "torchtitan", "deepspeed", "accelerate", "axolotl", "trl", "torchtune", "nemo"};
  return names;
}

ExportedConfig export_config(const Scenario& scenario, const Document& document,
                             const std::string& name) {
  const Format& format = format_of(name);
  check_framework(scenario, format);
  ExportedConfig made;
  const Facts facts = facts_of(scenario, document, format, made.notes);
  Writer writer(facts, format);
  SettingList settings = writer.settings();
  if (name == "torchtitan") check_flavour(settings, scenario, format);
  made.unsaid = writer.unsaid();
  // A script of the user's has the model and calls these two.
  if (name == "deepspeed" || name == "accelerate")
    std::erase_if(made.unsaid, [](const std::string& one) { return one.starts_with("model."); });
  check_quantization(made.unsaid, scenario, format);
  const std::set<std::string> said = said_in(document);
  const bool names_version = said.contains("framework." + scenario.framework.name);
  if (names_version)
    made.notes.push_back(fmt::format("no file of {} names its version, {}: a later import takes {}",
                                     scenario.framework.title, scenario.framework.version,
                                     "the usual one"));
  CheckedSettings checked = keep_to_checks(std::move(settings), format, scenario.framework,
                                           names_version, said, scenario.file);
  made.notes.insert(made.notes.end(), checked.notes.begin(), checked.notes.end());
  for (const std::string& note : notes_of(facts, format, checked.settings, said))
    made.notes.push_back(note);
  made.text = name == "megatron"     ? as_script(checked, scenario, names_version)
              : name == "torchtitan" ? as_toml(checked.settings)
              : name == "deepspeed"  ? json_text(as_tree(checked.settings), 2) + "\n"
                                     : as_yaml(as_tree(checked.settings), "");
  return made;
}

}  // namespace rehearse::inline foreign
