// Configurations of each kind, each beside its scenario, in *.cases here. A run with
// REHEARSE_UPDATE=1 in the environment writes what they become now.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "../scratch.hpp"
#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "foreign/export_config.hpp"
#include "foreign/import_config.hpp"
#include "rollout/rl_step.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(foreign_configs)
namespace {

const std::string kScenario = "--- scenario\n";

struct Case {
  std::string head, body, expected;
  std::vector<std::string> words;  ///< of the head: its name, then options
};

std::vector<std::string> words_of(const std::string& head) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : head) {
    if (c == '\'')
      quoted = !quoted;
    else if (c == ' ' && !quoted)
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

std::filesystem::path file_of(const std::string& format) {
  return data_folder() / "tests/foreign" / (format + ".cases");
}

std::vector<Case> cases_of(const std::string& format) {
  std::ifstream file(file_of(format));
  std::vector<Case> cases;
  bool expected = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("=== ")) {
      cases.push_back({line.substr(4), "", "", words_of(line.substr(4))});
      expected = false;
    } else if (line + "\n" == kScenario) {
      expected = true;
    } else {
      (expected ? cases.back().expected : cases.back().body) += line + "\n";
    }
  }
  return cases;
}

ImportOptionsOfConfig options_of(const Case& one) {
  ImportOptionsOfConfig options;
  for (std::size_t i = 1; i < one.words.size(); ++i) {
    const std::string& word = one.words[i];
    if (word == "--allow") {
      options.allow = true;
      continue;
    }
    const std::string value = one.words.at(++i);
    if (word == "--on") options.asked.on = value;
    if (word == "--model") options.asked.model = value;
    if (word == "--sequence") options.asked.sequence = value;
    if (word == "--batch") options.asked.batch = value;
    if (word == "--framework") options.format = value;
    if (word == "--precision") options.asked.precision = value;
    if (word == "--accumulation") options.asked.accumulation = value;
    if (word == "--lengths") options.asked.lengths = value;
    if (word == "--config") options.function = value;
  }
  return options;
}

/// Without the first line, which names the file.
std::string scenario_of(const ImportedConfig& imported) {
  return imported.scenario.substr(imported.scenario.find('\n') + 1);
}

std::string names_of(const std::vector<Told>& told) {
  std::vector<std::string> names;
  for (const Told& one : told) names.push_back(one.key);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string told_of(const ImportedConfig& imported) {
  const Translation& told = imported.told;
  return fmt::format("{}# {} mapped, {} without effect; unknown: [{}]; cannot be said: [{}]\n",
                     scenario_of(imported), told.mapped.size(), told.no_effect.size(),
                     names_of(told.unknown), names_of(told.cannot));
}

BOOST_AUTO_TEST_CASE(each_becomes_its_scenario) {
  const Scratch scratch;
  const bool update = std::getenv("REHEARSE_UPDATE") != nullptr;
  for (const std::string& format : format_names()) {
    std::string text;
    const std::vector<Case> cases = cases_of(format);
    BOOST_TEST(cases.size() >= 3, format);
    for (const Case& one : cases) {
      BOOST_TEST_CONTEXT(format << " " << one.head) {
        const auto file = scratch.write(one.words.front(), one.body);
        std::string is;
        BOOST_REQUIRE_NO_THROW(is = told_of(import_config({file}, options_of(one))));
        if (!update && !one.expected.empty()) BOOST_TEST(is == one.expected);
        text += fmt::format("=== {}\n{}{}{}", one.head, one.body, kScenario, is);
      }
    }
    if (update) std::ofstream(file_of(format)) << text;
  }
}

BOOST_AUTO_TEST_CASE(each_scenario_can_be_read) {
  const Scratch scratch;
  for (const std::string& format : format_names())
    for (const Case& one : cases_of(format)) BOOST_TEST_CONTEXT(format << " " << one.head) {
        const auto file = scratch.write(one.words.front(), one.body);
        const ImportedConfig imported = import_config({file}, options_of(one));
        const auto document = Document::parse(imported.scenario, "imported.yaml");
        if (asks_for_rl(*document))
          BOOST_CHECK_NO_THROW(read_rl_question(*document));
        else
          BOOST_CHECK_NO_THROW(read_scenario(*document));
      }
}

// Nodes and GPUs of a node stand apart on torchrun's command line.
BOOST_AUTO_TEST_CASE(other_machines_than_the_file_s_are_told) {
  const Scratch scratch;
  const auto file = scratch.write(
      "run.sh",
      "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
      "--num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 "
      "--micro-batch-size 1 --global-batch-size 64 --bf16 --vocab-size 128256\n");
  const auto says = [&](const std::string& on) {
    ImportOptionsOfConfig options;
    options.asked.on = on;
    const ImportedConfig made = import_config({file}, options);
    const std::size_t at = made.scenario.find("cluster: ");
    std::string text = made.scenario.substr(at, made.scenario.find('\n', at) - at);
    for (const Told& one : made.told.left) text += "; " + one.what;
    return text;
  };
  const std::string fewer = "; --on has 8 GPUs in the place of the file's 16";
  BOOST_TEST(says("aws_p5") == "cluster: {use: aws_p5, nodes: 2}");
  BOOST_TEST(says("2xaws_p5") == "cluster: {use: aws_p5, nodes: 2}");
  BOOST_TEST(says("1xaws_p5") == "cluster: {use: aws_p5, nodes: 1}" + fewer);
  BOOST_TEST(says("{use: aws_p5}") == "cluster: {use: aws_p5}" + fewer);
}

/// A command needs a length: the one that an export puts there says nothing.
std::string without_stand_in(std::string scenario, const ImportedConfig& first) {
  const bool said = first.scenario.find("train:") != std::string::npos;
  const std::string alone = "train: {steps: 100}\n";
  const std::size_t at = scenario.find(alone);
  if (!said && at != std::string::npos) scenario.erase(at, alone.size());
  const std::string beside = ", steps: 100}";
  const bool has_steps = first.scenario.find("steps:") != std::string::npos;
  if (const std::size_t inner = scenario.find(beside); !has_steps && inner != std::string::npos)
    scenario.replace(inner, beside.size(), "}");
  return scenario;
}

/// An exported command has no environment, whose settings a launch script says.
std::string without_environment(std::string scenario) {
  for (const std::string text :
       {"avoid_record_streams: false, ", "run: {efficiency: {cuda_launch_blocking: true}}\n"})
    if (const std::size_t at = scenario.find(text); at != std::string::npos)
      scenario.erase(at, text.size());
  return scenario;
}

/// In, out, and in again is the identity on all that is mapped.
BOOST_AUTO_TEST_CASE(out_and_in_again_is_the_same_scenario) {
  const Scratch scratch;
  for (const std::string& format : format_names()) {
    const std::string out = format == "nemo" ? "megatron" : format;
    const auto& exported = exported_formats();
    if (std::ranges::find(exported, out) == exported.end()) continue;
    for (const Case& one : cases_of(format)) BOOST_TEST_CONTEXT(format << " " << one.head) {
        ImportOptionsOfConfig options = options_of(one);
        const ImportedConfig first =
            import_config({scratch.write(one.words.front(), one.body)}, options);
        const auto document = Document::parse(first.scenario, "imported.yaml");
        const ExportedConfig made = export_config(read_scenario(*document), *document, out);
        const auto file = scratch.write("again.txt", made.text);
        options.format = out;
        ImportedConfig second;
        BOOST_REQUIRE_NO_THROW(second = import_config({file}, options));
        BOOST_TEST(without_stand_in(scenario_of(second), first) ==
                   without_environment(scenario_of(first)));
        BOOST_TEST(names_of(second.told.unknown) == "");
        BOOST_TEST(names_of(second.told.cannot) == "");
      }
  }
}

/// Megatron-DeepSpeed's scripts name both, and samples are a bound that is not reached.
BOOST_AUTO_TEST_CASE(tokens_end_a_training_before_its_samples) {
  const Scratch scratch;
  const auto file = scratch.write(
      "train.sh",
      "deepspeed pretrain_gpt.py --num-layers 2 --hidden-size 256 --num-attention-heads 4 "
      "--seq-length 512 --max-position-embeddings 512 --micro-batch-size 4 --vocab-size 1000 "
      "--train-tokens 1000000 --train-samples 999999999\n");
  ImportOptionsOfConfig options;
  options.asked.on = "1xdgx_a100";
  const ImportedConfig imported = import_config({file}, options);
  BOOST_TEST(imported.scenario.find("tokens: 1000000") != std::string::npos);
  BOOST_TEST(imported.scenario.find("samples") == std::string::npos);
}

/// torchtitan's own policy runs where a file is silent, and so it is written.
BOOST_AUTO_TEST_CASE(torchtitans_own_checkpoints_are_written_out) {
  const auto written = [](const std::string& policy, const std::string& text) {
    const auto document = Document::parse(
        fmt::format(
            "model: {{use: llama_3_8b, sequence: 8192, batch_per_gpu: 1, precision: fp32{}}}"
            "\nframework: torchtitan\ncluster: {{use: dgx_h100, nodes: 1}}\n"
            "strategy: {{fsdp2: {{}}}}\noptimizer: {{adamw: {{}}}}\n",
            policy),
        "test.yaml");
    return export_config(read_scenario(*document), *document, "torchtitan").text.find(text) !=
           std::string::npos;
  };
  const std::string every = "mode = \"selective\"\nselective_ac_option = \"2\"";
  const std::string none = "mode = \"none\"";
  const std::string key = ", activation_checkpointing: ";
  BOOST_TEST(written("", every));
  BOOST_TEST(written(key + "{every_layer: 2}", every));
  BOOST_TEST(written(key + "none", none));
}

ExportedConfig megatron_of(const std::string& framework, const std::string& strategy,
                           const std::string& more = "") {
  const auto document = Document::parse(
      fmt::format("framework: {}\nmodel: {{use: llama_3_8b, sequence: 4096, batch_per_gpu: 1, "
                  "precision: bf16_master}}\ncluster: {{use: dgx_h100, nodes: 1}}\n"
                  "strategy: {{{}}}\noptimizer: {{adamw: {{}}}}\n{}",
                  framework, strategy, more),
      "test.yaml");
  return export_config(read_scenario(*document), *document, "megatron");
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// 1e9 and 15e9 tokens of 4,096 a sample, rounded up.
BOOST_AUTO_TEST_CASE(an_exported_command_trains_what_was_asked) {
  const auto samples = [](const std::string& train) {
    return megatron_of("megatron", "zero: {stage: 1}", train).text;
  };
  BOOST_TEST(has(samples("train: {tokens: 1B}\n"), "--train-samples 244141 "));
  BOOST_TEST(has(samples("train: {tokens: 15B}\n"), "--train-samples 3662110 "));
  BOOST_TEST(has(samples("train: {steps: 77}\n"), "--train-iters 77 "));
  BOOST_TEST(has(megatron_of("megatron", "zero: {stage: 1}").notes.back(), "how long it trains"));
}

BOOST_AUTO_TEST_CASE(an_export_keeps_to_the_frameworks_own_checks) {
  const std::string fsdp = megatron_of("megatron", "fsdp2: {}").text;
  BOOST_TEST(has(fsdp, "--no-gradient-accumulation-fusion"));
  BOOST_TEST(!has(fsdp, "CUDA_DEVICE_MAX_CONNECTIONS"));
  const std::string tensor = megatron_of("megatron", "zero: {stage: 1}, tensor_parallel: 2").text;
  BOOST_TEST(has(tensor, "export CUDA_DEVICE_MAX_CONNECTIONS=1"));
  // core_v0.18.2 and later refuse TransformerEngine's fused loss, which earlier ones have.
  BOOST_TEST(!has(tensor, "--cross-entropy-fusion-impl te"));
  const std::string zero = "zero: {stage: 1}";
  BOOST_TEST(
      has(megatron_of("{megatron: core_v0.14.0}", zero).text, "--cross-entropy-fusion-impl te"));
  BOOST_TEST(!has(megatron_of("{megatron: core_v0.19.0}", zero).text, "cross-entropy"));
  BOOST_CHECK_THROW(megatron_of("megatron", zero + ", pipeline_parallel: 3, micro_batches: 3"),
                    InputError);
}

BOOST_AUTO_TEST_CASE(options_take_the_place_of_what_a_file_says) {
  const Scratch scratch;
  const auto file = scratch.write("ds.json",
                                  "{\"train_micro_batch_size_per_gpu\": \"auto\", \"bf16\": "
                                  "{\"enabled\": \"auto\"}, \"gradient_accumulation_steps\": "
                                  "\"auto\", \"zero_optimization\": {\"stage\": 2}}\n");
  ImportOptionsOfConfig options;
  options.asked.on = "1xdgx_h100";
  options.asked.model = "llama_3_8b";
  options.asked.batch = "1";
  BOOST_CHECK_THROW(import_config({file}, options), InputError);  // the precision is nobody's
  options.asked.precision = "bf16";
  options.asked.accumulation = "4";
  const std::string scenario = import_config({file}, options).scenario;
  BOOST_TEST(has(scenario, "precision: bf16_master"));
  BOOST_TEST(has(scenario, "gradient_accumulation: 4"));
}

BOOST_AUTO_TEST_CASE(a_file_that_another_names_counts_too) {
  const Scratch scratch;
  const auto file =
      scratch.write("jobs/train.sh",
                    "accelerate launch --config_file configs/fsdp.yaml --num_processes 8 sft.py "
                    "--model_name_or_path gpt2 --per_device_train_batch_size 2 --max_length 512\n");
  ImportOptionsOfConfig options;
  options.asked.on = "1xdgx_h100";
  options.asked.model = "gpt2";
  BOOST_CHECK_EXCEPTION(import_config({file}, options), InputError, [](const InputError& wrong) {
    return has(wrong.what(), "train.sh:1:33") && has(wrong.what(), "give both files");
  });
  options.allow = true;
  BOOST_TEST(has(import_config({file}, options).scenario, "strategy: {ddp: {}}"));
  options.allow = false;
  // The launcher's own count stands before its file's.
  const auto other =
      scratch.write("fsdp.yaml",
                    "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 4\n"
                    "fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: true}\n");
  const std::string given = import_config({file, other}, options).scenario;
  BOOST_TEST(has(given, "fsdp2:"));
  std::filesystem::create_directories(scratch / "configs");
  std::filesystem::rename(other, scratch / "configs/fsdp.yaml");
  BOOST_TEST(import_config({file}, options).scenario == given);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
