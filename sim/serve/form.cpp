#include "serve/form.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.hpp"
#include "config/draft.hpp"
#include "config/json/json_text.hpp"
#include "scenario/names.hpp"

namespace rehearse::inline serve {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostNodes = 2048, kMostBatch = 65536, kMostSequence = 1 << 20,
                       kMostParallel = 1024;
constexpr double kMostTokens = 1e15, kMostHours = 1e5, kMostUsd = 1e12;
constexpr std::size_t kMostBytes = 4096;

Json offered(std::initializer_list<std::pair<const char*, const char*>> all) {
  Json list = Json::array();
  for (const auto& [name, about] : all) list.push_back({{"name", name}, {"about", about}});
  return list;
}

/// The lines of `rehearse list KIND`.
Json listed(const std::string& kind) {
  Json list = Json::array();
  std::istringstream lines(names_text(kind));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t end = line.find(' ');
    const std::size_t about = line.find_first_not_of(' ', std::min(end, line.size()));
    if (end == 0 || line.empty()) continue;
    list.push_back({{"name", line.substr(0, end)},
                    {"about", about == std::string::npos ? "" : line.substr(about)}});
  }
  return list;
}

[[noreturn]] void fail(const std::string& field, const std::string& why) {
  throw InputError(fmt::format("{}: {}", field, why));
}

/// Reads fields one by one, and knows at the end which nobody asked for.
class Fields {
 public:
  explicit Fields(Json json) : json_(std::move(json)) {
    if (!json_.is_object()) fail("form", "no JSON object");
  }

  std::string name(const char* field, const Json& list) {
    const Json value = take(field);
    const auto holds = [&](const Json& one) { return one.at("name") == value; };
    if (!value.is_string() || std::ranges::none_of(list, holds)) fail(field, "none of its list");
    return value.get<std::string>();
  }
  std::int64_t whole(const char* field, std::int64_t least, std::int64_t most) {
    const Json value = take(field);
    if (!value.is_number_integer() || value.get<double>() < static_cast<double>(least) ||
        value.get<double>() > static_cast<double>(most))
      fail(field, fmt::format("expected a whole number from {} to {}", least, most));
    return value.get<std::int64_t>();
  }
  double number(const char* field, double most) {
    const Json value = take(field);
    if (!value.is_number() || !(value.get<double>() >= 0) || !(value.get<double>() <= most))
      fail(field, fmt::format("expected a number from 0 to {}", most));
    return value.get<double>();
  }
  bool truth(const char* field) {
    const Json value = take(field);
    if (!value.is_boolean()) fail(field, "expected true or false");
    return value.get<bool>();
  }
  std::string text(const char* field) {
    const Json value = take(field);
    if (!value.is_string()) fail(field, "expected a text");
    return value.get<std::string>();
  }
  bool has(const char* field) const { return json_.contains(field); }
  Json any(const char* field) { return take(field); }
  void finish() const {
    if (taken_ != json_.size()) fail("form", "it has a field that no form has");
  }

 private:
  Json take(const char* field) {
    const auto found = json_.find(field);
    if (found == json_.end()) fail(field, "it is missing");
    ++taken_;
    return *found;
  }

  Json json_;
  std::size_t taken_ = 0;
};

}  // namespace

Json choices() {
  return {{"models", listed("models")},
          {"clusters", listed("clusters")},
          {"strategies", offered({{"fsdp", "FSDP: all is sharded"},
                                  {"fsdp2", "FSDP2: all is sharded, tensor by tensor"},
                                  {"zero1", "ZeRO 1: optimizer states are sharded"},
                                  {"zero3", "ZeRO 3: all is sharded"},
                                  {"ddp", "DDP: each GPU has all of it"}})},
          {"precisions", offered({{"bf16_master", "bf16 with fp32 master weights"},
                                  {"bf16", "bf16 autocast over fp32 weights"},
                                  {"bf16_pure", "bf16 alone"},
                                  {"fp8", "fp8 products, bf16 else"},
                                  {"fp32", "fp32"}})},
          {"frameworks", offered({{"usual", "the usual one of the strategy"},
                                  {"torch", "PyTorch's own modules"},
                                  {"torchtitan", "torchtitan"},
                                  {"megatron", "Megatron-LM"},
                                  {"deepspeed", "DeepSpeed"}})},
          {"tunings", offered({{"all", "all weights"},
                               {"lora", "LoRA: adapters beside frozen bf16 weights"},
                               {"qlora", "QLoRA: adapters beside 4-bit weights"}})},
          {"axes", offered({{"nodes", "nodes"},
                            {"batch", "samples per GPU"},
                            {"sequence", "tokens per sample"},
                            {"strategy", "data parallelism"},
                            {"precision", "precision"}})},
          {"objectives", offered({{"throughput", "the highest throughput"},
                                  {"time", "the least time to train"},
                                  {"cost", "the lowest cost"}})}};
}

namespace {

const Json& lists() {
  static const Json all = choices();
  return all;
}

Form form_of(const Json& json) {
  const Json& lists = serve::lists();
  Fields fields(json);
  Form form{.model = fields.name("model", lists.at("models")),
            .cluster = fields.name("cluster", lists.at("clusters")),
            .strategy = fields.name("strategy", lists.at("strategies")),
            .precision = fields.name("precision", lists.at("precisions")),
            .tuning = fields.name("tuning", lists.at("tunings")),
            .framework = fields.name("framework", lists.at("frameworks")),
            .nodes = fields.whole("nodes", 1, kMostNodes),
            .batch = fields.whole("batch", 1, kMostBatch),
            .sequence = fields.whole("sequence", 0, kMostSequence),
            .tensor = fields.whole("tensor", 1, kMostParallel),
            .pipeline = fields.whole("pipeline", 1, kMostParallel),
            .micro_batches = fields.whole("micro_batches", 1, kMostBatch),
            .tokens = fields.number("tokens", kMostTokens),
            .checkpointing = fields.truth("checkpointing"),
            .compile = fields.truth("compile")};
  fields.finish();
  return form;
}

Json object_of(const std::string& json) {
  if (json.size() > kMostBytes) fail("form", "too long");
  return tried_json(json);
}

}  // namespace

Form form_from(const std::string& json) { return form_of(object_of(json)); }

Search search_from(const std::string& json) {
  Fields fields(object_of(json));
  Search search{.form = form_of(fields.any("form"))};
  if (fields.has("axis")) {
    search.axis = fields.name("axis", lists().at("axes"));
  } else {
    search.objective = fields.name("objective", lists().at("objectives"));
    search.deadline = fields.number("deadline_h", kMostHours);
    search.budget = fields.number("budget_usd", kMostUsd);
  }
  fields.finish();
  return search;
}

namespace {

/// A pipeline beside sharded parameters has no usual framework: torchtitan trains with FSDP2, and
/// PyTorch's own modules with FSDP. Everything else has its own.
std::string framework_of(const Form& form) {
  if (form.framework != "usual") return form.framework;
  if (form.pipeline < 2) return "";
  return form.strategy == "fsdp2" ? "torchtitan" : form.strategy == "fsdp" ? "torch" : "";
}

/// `{fsdp: {}, tensor_parallel: 2, ...}`
Draft strategy_of(const Form& form) {
  Draft strategy;
  if (form.strategy.starts_with("zero"))
    strategy.set("zero.stage", form.strategy.substr(4));
  else
    strategy.set(form.strategy, Draft::map());
  if (form.tensor > 1) strategy.set("tensor_parallel", form.tensor).set("sequence_parallel", true);
  if (form.pipeline > 1) strategy.set("pipeline_parallel", form.pipeline);
  if (form.tensor > 1 || form.pipeline > 1) strategy.set("micro_batches", form.micro_batches);
  return strategy;
}

/// The form's scenario.
Draft drafted(const Form& form) {
  const bool tuned = form.tuning != "all", quantized = form.tuning == "qlora";
  Draft scenario;
  scenario.set("model.use", form.model)
      .set("model.batch_per_gpu", form.batch)
      .set("model.precision", quantized ? "bf16_pure_autocast"
                              : tuned   ? "bf16_pure"
                                        : form.precision);
  if (form.sequence > 0) scenario.set("model.sequence", form.sequence);
  if (form.checkpointing)
    scenario.set("model.activation_checkpointing.units", Draft::list({"layers.*"}));
  if (form.compile) scenario.set("model.compile", true);
  if (tuned)
    scenario.set(
        "model.lora",
        Draft::map({{"rank", 16}, {"alpha", 32}, {"targets", Draft::list({"all_linear"})}}));
  if (quantized)
    scenario.set("model.quantization", Draft::map({{"weights", "nf4_double"}, {"others", "fp32"}}));
  scenario.set("cluster.use", form.cluster).set("cluster.nodes", form.nodes);
  if (const std::string framework = framework_of(form); !framework.empty())
    scenario.set("framework", framework);
  scenario.set("strategy", strategy_of(form)).set("optimizer.adamw", Draft::map());
  if (form.tokens > 0) scenario.set("train.tokens", fmt::format("{:.0f}", form.tokens));
  return scenario;
}

}  // namespace

std::string scenario_of(const Form& form) { return drafted(form).block(); }

namespace {

/// Five values from the form's own on, each twice the one before.
std::vector<std::string> doubled(std::int64_t from, std::int64_t most) {
  std::vector<std::string> values;
  for (std::int64_t value = from; values.size() < 5 && value <= most; value *= 2)
    values.push_back(std::to_string(value));
  return values;
}

/// The axis of a sweep as a study's `vary`.
Draft axis_of(const Search& search) {
  const Form& form = search.form;
  Draft vary;
  const auto named = [&](const char* key, const std::vector<std::string>& values) {
    vary.entry(key, Draft::list_of(values));
    return vary;
  };
  if (search.axis == "nodes") return named("cluster.nodes", doubled(form.nodes, kMostNodes));
  if (search.axis == "batch") return named("model.batch_per_gpu", doubled(form.batch, kMostBatch));
  if (search.axis == "sequence") {
    if (form.sequence == 0)
      fail("sequence", "say how many tokens a sample has, so that they can vary");
    return named("model.sequence", doubled(form.sequence, kMostSequence));
  }
  std::vector<std::string> labels;
  std::vector<Draft> strategies;
  for (const Json& one : lists().at(search.axis == "strategy" ? "strategies" : "precisions")) {
    labels.push_back(one.at("name"));
    Form other = form;
    other.strategy = labels.back();
    strategies.push_back(strategy_of(other));
  }
  if (search.axis == "precision") return named("model.precision", labels);
  return vary.set("strategy.values", Draft::list(strategies))
      .set("strategy.labels", Draft::list_of(labels));
}

}  // namespace

OwnFile file_from(const std::string& json) {
  Fields fields(tried_json(json));
  OwnFile file{.name = fields.text("name"), .text = fields.text("text"), .on = {}};
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '-' || c == '_';
  };
  const bool is_name = !file.name.empty() && file.name.size() <= 100 && file.name[0] != '.' &&
                       file.name[0] != '-' && std::ranges::all_of(file.name, plain);
  if (!is_name) fail("name", "a file's name has letters, digits, dots, - and _ here");
  const std::string cluster = fields.name("cluster", lists().at("clusters"));
  file.on = fmt::format("{}x{}", fields.whole("nodes", 1, kMostNodes), cluster);
  fields.finish();
  return file;
}

JobTask task_of(const Search& search) {
  const Form& form = search.form;
  JobTask task;
  if (!search.axis.empty()) {
    task.words = {"sweep", "-"};
    task.input = Draft().set("scenario", drafted(form)).set("vary", axis_of(search)).block();
  } else {
    task.words = {"plan",
                  "--model",
                  form.model,
                  "--on",
                  fmt::format("{}x{}", form.nodes, form.cluster),
                  "--precision",
                  form.precision,
                  "--objective",
                  search.objective};
    const auto add = [&](const char* option, double value, const char* unit) {
      if (value > 0)
        task.words.insert(task.words.end(), {option, fmt::format("{}{}", value, unit)});
    };
    add("--sequence", static_cast<double>(form.sequence), "");
    add("--tokens", form.tokens, "");
    add("--deadline", search.deadline, "h");
    add("--budget", search.budget, "");
    if (form.framework != "usual")
      task.words.insert(task.words.end(), {"--framework", form.framework});
  }
  task.words.insert(task.words.end(),
                    {"--output", kFolderWord, "--html", kPageWord, "--color", "never"});
  return task;
}

}  // namespace rehearse::inline serve
