// What is exported and imported again predicts the same to the digit, or the export says what it
// lost. Layouts are drawn by a seed.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <random>

#include "../scratch.hpp"
#include "base/child_process.hpp"
#include "base/error.hpp"
#include "foreign/export_config.hpp"
#include "foreign/import_config.hpp"
#include "predict/predict.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(foreign_round_trips)
namespace {

constexpr int kTrips = 10;       ///< of each format
constexpr int kMostDraws = 400;  ///< of which most are no layouts

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  std::string of(const std::vector<std::string>& all) {
    return all[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random_)];
  }

 private:
  std::mt19937 random_;
};

/// A scenario and what an import needs beside its export.
struct Drawn {
  std::string text;
  Asked asked;
};

Asked asked_of(const std::string& model, const std::string& batch) {
  Asked asked;
  asked.model = model;
  asked.sequence = "1024";
  asked.batch = batch;
  return asked;
}

Drawn megatron(Draw& draw) {
  const bool experts = draw.of({"yes", "no"}) == "yes";
  const std::string shape = fmt::format(
      "{{layers: {}, hidden_size: 1024, heads: 16, intermediate_size: {}, vocab_size: {}, "
      "activation: {}, norm: {}, position: rope, bias: false, tie_embeddings: false, dropout: "
      "0{}{}}}",
      draw.of({"4", "8"}), draw.of({"4096", "2816"}), draw.of({"32000", "50257"}),
      draw.of({"swiglu", "gelu"}), draw.of({"rmsnorm", "layernorm"}),
      draw.of({"", ", kv_heads: 8"}), experts ? ", experts: {count: 8, active: 2}" : "");
  const std::string sync =
      draw.of({"ddp: {}", "ddp: {overlap_grad_reduce: true}", "zero: {stage: 1}", "fsdp2: {}",
               "zero: {stage: 1, overlap_grad_reduce: true, overlap_param_gather: true}"});
  std::string layout;
  const std::string tensor = draw.of({"1", "2", "4"});
  if (tensor != "1")
    layout += ", tensor_parallel: " + tensor + draw.of({"", ", sequence_parallel: true"});
  layout += draw.of({"", "", ", pipeline_parallel: 2, micro_batches: 4", ", context_parallel: 2"});
  if (experts) layout += draw.of({"", ", expert_parallel: 2", ", expert_parallel: 4"});
  if (experts && tensor != "1") layout += draw.of({"", ", expert_tensor_parallel: 1"});
  return {fmt::format("framework: {}\nmodel: {{transformer: {}, sequence: 2048, batch_per_gpu: {}, "
                      "precision: {}{}}}\ncluster: {{use: dgx_h100, nodes: {}}}\n"
                      "strategy: {{{}{}}}\noptimizer: {{adamw: {{}}}}\n{}",
                      draw.of({"megatron", "megatron", "{megatron: core_v0.19.0}"}), shape,
                      draw.of({"1", "2"}), draw.of({"bf16_master", "bf16_master", "fp8"}),
                      draw.of({"", ", activation_checkpointing: selective",
                               ", activation_checkpointing: {units: [layers.*]}"}),
                      draw.of({"1", "2"}), sync, layout,
                      draw.of({"", "train: {tokens: 1B}\n", "train: {steps: 500}\n"})),
          {}};
}

Drawn torchtitan(Draw& draw) {
  return {
      fmt::format(
          "framework: torchtitan\nmodel: {{use: {}, sequence: {}, batch_per_gpu: {}, "
          "precision: fp32{}}}\ncluster: {{use: dgx_h100, nodes: {}}}\n"
          "strategy: {{fsdp2: {{}}{}}}\noptimizer: {{adamw: {{}}}}\n{}",
          draw.of({"llama_3_8b", "qwen3_8b"}), draw.of({"2048", "4096"}), draw.of({"1", "2"}),
          draw.of({"", ", activation_checkpointing: none", ", compile: blocks",
                   ", activation_checkpointing: {units: [layers.*]}"}),
          draw.of({"1", "2"}),
          draw.of({"", ", tensor_parallel: 2", ", context_parallel: 2", ", tensor_parallel: 8"}),
          draw.of({"", "train: {steps: 100}\n"})),
      {}};
}

Drawn deepspeed(Draw& draw) {
  const std::string stage = draw.of({"1", "2", "3"});
  const std::string precision = draw.of({"bf16_master", "fp16_master"});
  return {fmt::format("framework: deepspeed\nmodel: {{use: gpt2_xl, sequence: 1024, batch_per_gpu: "
                      "{}, precision: {}}}\ncluster: {{use: dgx_a100, nodes: {}}}\n"
                      "strategy: {{zero: {{stage: {}{}{}}}}}\noptimizer: {{adamw: {{{}}}}}\n",
                      draw.of({"1", "4"}), precision, draw.of({"1", "2"}), stage,
                      draw.of({"", ", gradient_accumulation: 4"}),
                      draw.of({"", ", overlap_comm: true", ", overlap_comm: false"}),
                      draw.of({"", "clip_grad: 1"})),
          asked_of("gpt2_xl", "")};
}

Drawn accelerate(Draw& draw) {
  const std::string sync =
      draw.of({"ddp: {}", "fsdp: {}", "fsdp: {sharding: shard_grad_op}", "fsdp2: {}",
               "fsdp2: {reshard_after_forward: false}", "fsdp: {cpu_offload: true}"});
  return {fmt::format("framework: torch\nmodel: {{use: llama_7b, sequence: 1024, batch_per_gpu: 1, "
                      "precision: {}}}\ncluster: {{use: dgx_a100, nodes: {}}}\n"
                      "strategy: {{{}}}\noptimizer: {{adamw: {{}}}}\n",
                      draw.of({"bf16", "fp32"}), draw.of({"1", "2"}), sync),
          asked_of("llama_7b", "1")};
}

/// A recipe names a network of the hub.
std::string hub_model(Draw& draw, const std::string& precision) {
  return fmt::format(
      "framework: torch\nmodel: {{use: {}, sequence: 1024, batch_per_gpu: {}, "
      "precision: {}{}}}\ncluster: {{use: dgx_a100, nodes: {}}}\n",
      draw.of({"llama_7b", "llama_3_8b", "qwen2_5_7b"}), draw.of({"1", "2"}), precision,
      draw.of({"", ", activation_checkpointing: {units: [layers.*]}", ", lora: {rank: 16}",
               ", lora: {rank: 8, targets: [all_linear]}"}),
      draw.of({"1", "2"}));
}

std::string trained(Draw& draw, const std::string& sync) {
  return fmt::format("strategy: {{{}}}\noptimizer: {{adamw: {{{}}}}}\n{}", sync,
                     draw.of({"", "fused: true", "clip_grad: 1", "fused: true, clip_grad: 1"}),
                     draw.of({"", "train: {steps: 100}\n"}));
}

Drawn of_trainer(Draw& draw, const std::vector<std::string>& alone) {
  const bool shards = draw.of({"yes", "no"}) == "yes";
  const std::string sync = shards
                               ? draw.of({"fsdp: {param_dtype: bf16}", "fsdp2: {param_dtype: bf16}",
                                          "fsdp: {param_dtype: bf16, gradient_accumulation: 4}"})
                               : draw.of({"ddp: {}", "ddp: {gradient_accumulation: 4}"});
  const std::string model = hub_model(draw, shards ? "bf16" : draw.of(alone));
  return {model + trained(draw, sync), {}};
}

Drawn axolotl(Draw& draw) { return of_trainer(draw, {"bf16_pure_autocast", "bf16_pure", "fp32"}); }

Drawn trl(Draw& draw) { return of_trainer(draw, {"bf16", "bf16_pure_autocast", "fp32"}); }

Drawn torchtune(Draw& draw) {
  const std::string model = hub_model(draw, draw.of({"bf16_pure", "fp32"}));
  return {model + trained(draw, draw.of({"fsdp2: {}", "fsdp2: {reshard_after_forward: false}",
                                         "fsdp2: {gradient_accumulation: 2}"})),
          {}};
}

/// Seconds of a step and bytes at the peak, in all digits. A child's: SimGrid simulates once in a
/// process.
std::string predicted(const std::string& text) {
  ChildProcess child([&] {
    const Scenario scenario = read_scenario(*Document::parse(text, "trip.yaml"));
    const Prediction made =
        predict(scenario, Options{.find_largest_batch = false, .intervals = false});
    return fmt::format("{:.12g} s, {:.12g} bytes", made.report.step_time.value(),
                       made.report.memory ? made.report.memory->allocated_peak.value() : 0);
  });
  return child.result();
}

void round_trips(const std::string& format, Drawn (*drawn)(Draw&)) {
  const Scratch scratch;
  Draw draw(69);
  int trips = 0, same = 0;
  for (int i = 0; i < kMostDraws && trips < kTrips; ++i) {
    Drawn one = drawn(draw);
    ExportedConfig made;
    try {
      const auto document = Document::parse(one.text, "drawn.yaml");
      made = export_config(read_scenario(*document), *document, format);
    } catch (const InputError&) {
      continue;  // no layout, or none that the framework takes
    }
    ++trips;
    BOOST_TEST_CONTEXT(one.text << made.text) {
      const auto document = Document::parse(one.text, "drawn.yaml");
      Map cluster = document->root().as_map().require("cluster").as_map();
      one.asked.on =
          cluster.require("nodes").as_string() + "x" + cluster.require("use").as_string();
      ImportedConfig again;
      BOOST_REQUIRE_NO_THROW(
          again = import_config({scratch.write("again.txt", made.text)},
                                {.asked = one.asked, .format = format, .allow = false}));
      const bool alike = predicted(again.scenario) == predicted(one.text);
      same += alike ? 1 : 0;
      BOOST_TEST((alike || !made.notes.empty() || !made.unsaid.empty()));
    }
  }
  BOOST_TEST(trips == kTrips);
  BOOST_TEST(same >= kTrips / 2);
}

BOOST_AUTO_TEST_CASE(random_layouts_of_megatron) { round_trips("megatron", megatron); }
BOOST_AUTO_TEST_CASE(random_layouts_of_torchtitan) { round_trips("torchtitan", torchtitan); }
BOOST_AUTO_TEST_CASE(random_layouts_of_deepspeed) { round_trips("deepspeed", deepspeed); }
BOOST_AUTO_TEST_CASE(random_layouts_of_accelerate) { round_trips("accelerate", accelerate); }
BOOST_AUTO_TEST_CASE(random_layouts_of_axolotl) { round_trips("axolotl", axolotl); }
BOOST_AUTO_TEST_CASE(random_layouts_of_trl) { round_trips("trl", trl); }
BOOST_AUTO_TEST_CASE(random_layouts_of_torchtune) { round_trips("torchtune", torchtune); }
BOOST_AUTO_TEST_CASE(random_layouts_of_megatron_bridge) { round_trips("nemo", megatron); }

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
