// A default that is written out changes nothing: the report is the same to the byte, but for the
// lines that say that it was taken.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "base/child_process.hpp"
#include "base/error.hpp"
#include "keys/keys.hpp"
#include "predict/predict.hpp"
#include "view/json_view.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(framework_defaults)
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kScenario = R"(
model: {transformer: {layers: 4, hidden_size: 64, heads: 4, intermediate_size: 128,
        vocab_size: 500EXPERTS}, sequence: 64, batch_per_gpu: 2, precision: bf16_master}
cluster: {node: {gpu: A100-SXM-80, gpus: 4, nvlink: 300GBps, nic: 100Gbps}, nodes: 2}
optimizer: {adamw: {}}
run: {steps: 1, warmup_steps: 1, jitter: none, speed_spread: 0}
)";

std::shared_ptr<const Document> scenario_of(const std::string& framework,
                                            const std::string& strategy) {
  const bool experts = strategy.find("expert_parallel") != std::string::npos;
  const std::string text = std::regex_replace(std::string(kScenario), std::regex("EXPERTS"),
                                              experts ? ", experts: {count: 4, active: 2}" : "");
  const std::string key = framework.empty() ? "" : "framework: " + framework + "\n";
  return Document::parse(text + key + "strategy: " + strategy + "\n", "test.yaml");
}

/// The report, or what is wrong with the scenario without its place.
struct Outcome {
  std::string wrong;
  Json report;
};

Outcome outcome_of(const Document& document) {
  const std::string text = in_child_process([&] {
    try {
      const Scenario scenario = read_scenario(document);
      const Prediction prediction =
          predict(scenario, {.find_largest_batch = false, .intervals = false});
      return json_view(prediction.report).dump();
    } catch (const InputError& wrong) {
      return std::string(wrong.what());
    }
  });
  if (!text.starts_with("{")) return {.wrong = text, .report = {}};
  return {.wrong = {}, .report = Json::parse(text)};
}

/// Whether a scenario says a key.
bool has(const Document& document, const std::string& key) {
  Value at = document.root();
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('.', begin), key.size());
    if (!at.is_map()) return false;
    const std::optional<Value> next = at.as_map().optional(key.substr(begin, end - begin));
    if (!next) return false;
    at = *next;
    begin = end + 1;
  }
  return true;
}

std::string section_of(const std::string& key) {
  return key.substr(0, std::min(key.rfind('.'), key.size()));
}

/// Maps whose absence is the defaults of all their keys; the others' switches something on.
bool is_usual(const std::string& section) {
  return section == "memory.allocator" || section == "strategy.experts";
}

/// A scenario's own word for what a framework calls otherwise.
std::string written(const std::string& key) {
  if (key.starts_with("optimizer.") && key.find("adamw") == std::string::npos)
    return "optimizer.adamw" + key.substr(key.find('.'));
  return key;
}

/// Whether a line or a framework's setting says `told`, which `key` in a scenario decides. The one
/// key of a map says all of it: the others' defaults have lines of their own then.
bool decides(const std::string& key, const std::string& told) {
  const std::string section = section_of(key);
  if (is_usual(section) && (told == section || told.starts_with(section + "."))) return true;
  // An optimizer is either foreach or fused.
  if (key.ends_with(".foreach") && told == "optimizer.fused") return true;
  return told == key || written(told) == key;
}

/// What a report says but for the defaults of a key.
std::string without(const Outcome& outcome, const std::string& key) {
  Json report = outcome.report;
  Json lines = Json::array(), set = Json::array();
  for (const Json& line : report["assumptions"]) {
    const std::string text = line.get<std::string>();
    if (!decides(key, text.substr(0, text.find(" = ")))) lines.push_back(line);
  }
  for (const Json& one : report["framework"]["set"])
    if (!decides(key, one["key"])) set.push_back(one);
  report["assumptions"] = lines;
  report["framework"]["set"] = set;
  return report.dump();
}

/// Defaults that the report states, by their keys.
std::map<std::string, std::string> stated(const Json& report) {
  static const std::regex form("([a-z_0-9]+(?:\\.[a-z_0-9]+)*) = ([^ :]+|\\{.*\\})(:.*)?");
  std::map<std::string, std::string> defaults;
  for (const Json& line : report["assumptions"]) {
    std::smatch parts;
    const std::string text = line.get<std::string>();
    if (std::regex_match(text, parts, form)) defaults[parts[1]] = parts[2];
  }
  for (const Json& one : report["framework"]["set"]) {
    const std::string value = one["value"];
    if (!value.starts_with("(")) defaults[one["key"]] = value;
  }
  return defaults;
}

/// Those that the reference says of a section, where neither a framework nor the scenario changes
/// them.
void add_listed(const Document& scenario, const std::string& prefix,
                std::map<std::string, std::string>& defaults) {
  for (const KeySection& section : key_sections())
    for (const Key& key : section.keys) {
      const std::string fallback(key.fallback);
      const std::string path = std::string(section.prefix) + std::string(key.name);
      const bool literal = fallback.find_first_of(" (;-") == std::string::npos &&
                           fallback != "required" && !fallback.empty();
      if (section.prefix != prefix || !literal || path.find("NAME") != std::string::npos) continue;
      const bool nested = key.name.find('.') != std::string::npos;
      const std::string map = section_of(path);
      const bool changes = nested && !is_usual(map) && !has(scenario, map);
      if (!changes && !has(scenario, path)) defaults.emplace(path, fallback);
    }
}

struct Tally {
  std::size_t scenarios = 0, keys = 0, refused = 0;
};

/// Writes each default of one scenario out.
void write_each(const std::string& framework, const std::string& strategy, Tally& tally) {
  const auto document = scenario_of(framework, strategy);
  const Outcome plain = outcome_of(*document);
  if (!plain.wrong.empty()) return;  // the framework does not have it
  ++tally.scenarios;
  const std::map<std::string, std::string> taken = stated(plain.report);
  std::map<std::string, std::string> defaults = taken;
  for (const char* section : {"strategy.", "model.", "run.", "memory.", "train."})
    add_listed(*document, section, defaults);
  const std::string kind = strategy.substr(1, strategy.find(':') - 1);
  add_listed(*document, fmt::format("strategy.{}.", kind), defaults);
  for (const auto& [key, value] : defaults) {
    // What is assumed of a cluster or a router widens the interval until somebody says it.
    if (key == "pipeline.runtime" || key.find('.') == std::string::npos) continue;
    if (key.starts_with("cluster.") || key.ends_with("experts.imbalance")) continue;
    std::shared_ptr<const Document> with;
    try {
      with = document->with_overrides({fmt::format("{}={}", written(key), value)});
    } catch (const Error&) {
      continue;  // no such place in this scenario
    }
    const Outcome outcome = outcome_of(*with);
    if (!outcome.wrong.empty()) {
      ++tally.refused;
      BOOST_CHECK_MESSAGE(!taken.contains(key),
                          fmt::format("{} {}: {} = {} was taken, and cannot be written: {}",
                                      framework, strategy, key, value, outcome.wrong));
      continue;
    }
    ++tally.keys;
    BOOST_CHECK_MESSAGE(
        without(outcome, written(key)) == without(plain, written(key)),
        fmt::format("{} {}: {} = {} changes the report", framework, strategy, key, value));
  }
}

const std::vector<std::string> kStrategies = {"{ddp: {}}",
                                              "{zero: {stage: 1}}",
                                              "{zero: {stage: 2}}",
                                              "{zero: {stage: 3}}",
                                              "{fsdp: {}}",
                                              "{fsdp2: {}}",
                                              "{ps: {}}",
                                              "{local_sgd: {period: 2}}",
                                              "{ddp: {}, tensor_parallel: 2}",
                                              "{zero: {stage: 1}, pipeline_parallel: 2}",
                                              "{fsdp2: {}, tensor_parallel: 2}",
                                              "{fsdp2: {}, pipeline_parallel: 2}",
                                              "{zero: {stage: 1}, context_parallel: 2}",
                                              "{zero: {stage: 1}, expert_parallel: 2}",
                                              "{zero: {stage: 2}, tensor_parallel: 2}",
                                              "{ps: {}, tensor_parallel: 2}"};

/// One that is not said is one of these, as a test below holds.
const std::vector<std::string> kFrameworks = {"torch", "torchtitan", "megatron", "deepspeed"};

BOOST_AUTO_TEST_CASE(a_default_that_is_written_out_changes_nothing) {
  Tally tally;
  for (const std::string& framework : kFrameworks)
    for (const std::string& strategy : kStrategies) write_each(framework, strategy, tally);
  BOOST_TEST_MESSAGE(fmt::format("{} scenarios, {} defaults written out, {} refused",
                                 tally.scenarios, tally.keys, tally.refused));
  BOOST_TEST(tally.scenarios >= 30u);
  BOOST_TEST(tally.keys >= 1000u);
}

/// selective_ac_option counts layers from 1 on.
BOOST_AUTO_TEST_CASE(torchtitan_checkpoints_every_second_block_and_never_the_logits) {
  const Scenario scenario = read_scenario(*scenario_of("torchtitan", "{fsdp2: {}}"));
  std::vector<std::string> names;
  for (std::size_t unit = 0; unit < scenario.checkpointed.size(); ++unit)
    if (scenario.checkpointed[unit]) names.push_back(scenario.model.units[unit].name);
  BOOST_TEST(names == (std::vector<std::string>{"layers.1", "layers.3"}),
             boost::test_tools::per_element());
  BOOST_TEST(read_scenario(*scenario_of("torch", "{fsdp2: {}}")).checkpointed.empty());
}

/// The framework's name is a default, too.
BOOST_AUTO_TEST_CASE(the_framework_that_is_taken_can_be_written_out) {
  for (const std::string& strategy : kStrategies) {
    const Outcome plain = outcome_of(*scenario_of("", strategy));
    if (!plain.wrong.empty()) continue;
    Outcome said = outcome_of(*scenario_of(plain.report["framework"]["name"], strategy));
    BOOST_TEST_CONTEXT(strategy) {
      BOOST_TEST(said.wrong == "");
      said.report["framework"]["said"] = false;
      said.report["framework"]["line"] = plain.report["framework"]["line"];
      BOOST_TEST(said.report.dump() == plain.report.dump());
    }
  }
}

/// `{ddp: {}}` with a degree of 1 beside it.
std::string beside(const std::string& strategy, const std::string& more) {
  return strategy.substr(0, strategy.size() - 1) + ", " + more + "}";
}

BOOST_AUTO_TEST_CASE(a_degree_of_1_equals_its_absence) {
  std::size_t equal = 0;
  for (const std::string& framework : kFrameworks)
    for (std::size_t kind = 0; kind < 8; ++kind) {
      const Outcome alone = outcome_of(*scenario_of(framework, kStrategies[kind]));
      for (const char* more :
           {"tensor_parallel: 1", "pipeline_parallel: 1", "context_parallel: 1",
            "context_parallel: {degree: 1}", "order: tp-cp-ep-dp-pp", "sequence_parallel: false"}) {
        const Outcome other = outcome_of(*scenario_of(framework, beside(kStrategies[kind], more)));
        BOOST_TEST_CONTEXT(framework << " " << kStrategies[kind] << ", " << more) {
          BOOST_TEST(alone.wrong.empty() == other.wrong.empty());
          const std::string key =
              "strategy." + std::string(more).substr(0, std::string(more).find(':'));
          if (alone.wrong.empty() && other.wrong.empty()) {
            BOOST_TEST(without(alone, key) == without(other, key));
            ++equal;
          }
        }
      }
    }
  BOOST_TEST(equal >= 102u);  // frameworks have 17 of the 32, which six words leave as they are
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
