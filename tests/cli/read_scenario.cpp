#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>

#include "base/error.hpp"
#include "scenario/scenario.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(read_scenario_test)
namespace {

const std::string kToy = R"(
model:
  name: toy
  batch_per_gpu: 8
  optimizer_time: 1ms
  units:
    - {name: stem, parameters: 250000, forward: 1ms, backward: 2ms, activation: 4MiB}
    - {name: head, parameters: 6553600, forward: 2ms, backward: 4ms, activation: 1MiB, host_launch: 5us}
cluster:
  nodes: 4
  node: {gpus: 1, gpu: generic, memory: 16GiB, nic: 10Gbps, nic_latency: 5us}
strategy: {ddp: {bucket_cap_mb: 25}}
)";

Scenario read(const std::string& text) { return read_scenario(*Document::parse(text, "toy.yaml")); }

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

BOOST_AUTO_TEST_CASE(an_inline_model_arrives_unit_by_unit) {
  const Scenario scenario = read(kToy);
  BOOST_TEST(scenario.model.name == "toy");
  BOOST_TEST(scenario.model.parameters() == 6803600);
  BOOST_TEST(scenario.model.optimizer_time->value() == 1e-3);
  BOOST_REQUIRE(scenario.model.units.size() == 2u);
  const Unit& head = scenario.model.units[1];
  BOOST_TEST(head.name == "head");
  BOOST_TEST(head.forward->value() == 2e-3);
  BOOST_TEST(head.backward->value() == 4e-3);
  BOOST_TEST(head.activation->value() == 1048576);
  BOOST_TEST(head.host_launch.value() == 5e-6);
  BOOST_TEST(scenario.batch_per_gpu == 8);
  BOOST_TEST(scenario.cluster.gpu_count() == 4u);
}

BOOST_AUTO_TEST_CASE(sections_that_are_missing_have_the_defaults_of_run_options) {
  const Scenario scenario = read(kToy);
  BOOST_TEST(scenario.run.steps == 10u);
  BOOST_TEST(scenario.run.warmup_steps == 2u);
  BOOST_TEST(scenario.run.seed == 1u);
  BOOST_TEST((scenario.run.fidelity == FidelityChoice::automatic));
  BOOST_TEST((scenario.optimizer.kind == OptimizerKind::sgd));
  BOOST_TEST(!scenario.train.epochs.has_value());
}

BOOST_AUTO_TEST_CASE(a_host_says_what_an_operator_takes_it_where_the_scenario_does_not) {
  const auto launch = [](const std::string& node, const std::string& run) {
    const Scenario scenario = read(
        "model: {use: bert_large, sequence: 64, batch_per_gpu: 1, precision: bf16}\n"
        "cluster: {nodes: 1, node: {gpu: A100-SXM-80" +
        node + "}}\nstrategy: {ddp: {}}\nrun: {" + run + "}\n");
    return group_costs(scenario)[0].host_operator.value();
  };
  const std::string stated = "efficiency: {host_launch: 45us}";
  BOOST_TEST(launch("", "") == kHostOperator.value());
  BOOST_TEST(launch(", host_launch: 60us", "") == 60e-6);
  BOOST_TEST(launch(", host_launch: 60us", stated) == 45e-6);
}

BOOST_AUTO_TEST_CASE(what_fsdp_computes_in_holds_in_a_layout) {
  for (const char* layout : {"", ", tensor_parallel: 2", ", pipeline_parallel: 2"}) {
    const Scenario scenario =
        read(std::string("model: {use: llama_3_8b, batch_per_gpu: 1, precision: fp32}\n"
                         "cluster: {use: dgx_h100, nodes: 2}\nframework: torch\n"
                         "strategy: {fsdp2: {param_dtype: fp16}") +
             layout + "}\n");
    BOOST_TEST_CONTEXT(layout) {
      BOOST_TEST(scenario.optimizer.scales());
      BOOST_TEST(std::ranges::count(scenario.assumptions,
                                    "formats: FSDP's MixedPrecision: units are gathered in fp16 "
                                    "and gradients reduced in fp16") == 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_strategy_is_the_same_in_any_order_of_its_keys) {
  const auto built = [](const std::string& strategy) {
    const Scenario scenario = read(
        "model: {use: llama_3_8b, batch_per_gpu: 1}\ncluster: {use: dgx_h100, nodes: 2}\nstrategy: "
        "{" +
        strategy + "}\n");
    return std::pair(scenario.strategy.layout->mesh.pipeline, scenario.strategy.sync.index());
  };
  BOOST_TEST((built("pipeline_parallel: 2, micro_batches: 4, zero: {stage: 1}") ==
              built("zero: {stage: 1}, pipeline_parallel: 2, micro_batches: 4")));
  BOOST_TEST((built("micro_batches: 4, pipeline_parallel: 2") ==
              built("ddp: {}, micro_batches: 4, pipeline_parallel: 2")));
}

BOOST_AUTO_TEST_CASE(every_default_that_was_taken_is_an_assumption) {
  const Scenario scenario = read(kToy);
  for (const char* assumption :
       {"optimizer = sgd", "optimizer.sgd.fused = false", "optimizer.sgd.foreach = true",
        "run.set_to_none = true", "model.activation_checkpointing = none",
        "memory.allocator = PyTorch's defaults", "model.precision = fp32",
        "strategy.ddp.static_graph = false", "run.steps = 10", "run.seed = 1", "run.jitter = none",
        "run.overlap_slowdown = 1"}) {
    BOOST_TEST(contains(scenario.assumptions, assumption), assumption);
  }
  BOOST_TEST(!contains(scenario.assumptions, "strategy.ddp.bucket_cap_mb = 25"));
}

BOOST_AUTO_TEST_CASE(every_option_of_a_run_arrives) {
  const Scenario scenario = read(
      kToy +
      "run: {steps: 5, warmup_steps: 0, seed: 7, fidelity: hop, jitter: {lognormal: {cv: 0.05}},"
      " stragglers: [{rank: 3, slowdown: 1.5}], overlap_slowdown: 1.2,"
      " efficiency: {matrix: 0.5, depthwise: 0.2, attention: 0.4, memory: 0.6,"
      " kernel_launch: 3us}}\n"
      "train: {samples_per_epoch: 1000, epochs: 2.5}\noptimizer: {adamw: {fused: true}}\n");
  BOOST_TEST(scenario.run.steps == 5u);
  BOOST_TEST(scenario.run.warmup_steps == 0u);
  BOOST_TEST(scenario.run.seed == 7u);
  BOOST_TEST((scenario.run.fidelity == FidelityChoice::hop));
  BOOST_TEST((scenario.run.jitter.distribution == Jitter::Distribution::lognormal));
  BOOST_TEST(scenario.run.jitter.cv == 0.05);
  BOOST_REQUIRE(scenario.run.stragglers.size() == 1u);
  BOOST_TEST(scenario.run.stragglers[0].rank == 3u);
  BOOST_TEST(scenario.run.stragglers[0].slowdown == 1.5);
  BOOST_TEST(scenario.run.overlap_slowdown.value() == 1.2);
  BOOST_TEST(*scenario.run.efficiency.matrix == 0.5);
  BOOST_TEST(*scenario.run.efficiency.depthwise == 0.2);
  BOOST_TEST(*scenario.run.efficiency.attention == 0.4);
  BOOST_TEST(*scenario.run.efficiency.memory == 0.6);
  BOOST_TEST(scenario.run.efficiency.kernel_launch->value() == 3e-6);
  BOOST_TEST(*scenario.train.samples_per_epoch == 1000);
  BOOST_TEST(*scenario.train.epochs == 2.5);
  BOOST_TEST((scenario.optimizer.kind == OptimizerKind::adamw));
  BOOST_TEST(scenario.optimizer.fused);
}

BOOST_AUTO_TEST_CASE(a_step_on_the_host_is_one_pass_where_the_framework_has_its_own) {
  const auto fused = [](const std::string& framework, const std::string& optimizer) {
    return read(
               "model: {use: gpt2, batch_per_gpu: 1}\ncluster: {use: dgx_a100, nodes: 1}\n"
               "strategy: {zero: {stage: 1}}\nframework: " +
               framework + "\noptimizer: {adam: {" + optimizer + "}}\n")
        .optimizer.fused;
  };
  BOOST_TEST(fused("deepspeed", "offload: cpu"));
  BOOST_TEST(!fused("deepspeed", ""));
  BOOST_TEST(!fused("deepspeed", "offload: cpu, fused: false"));
  BOOST_TEST(!fused("torch", "offload: cpu"));
}

BOOST_AUTO_TEST_CASE(every_option_of_memory_arrives) {
  const Scenario scenario = read(
      kToy +
      "run: {set_to_none: false}\noptimizer: {adam: {foreach: false}}\n"
      "memory: {device: cpu, allocator: {max_split_size_mb: 128, expandable_segments: true,"
      " garbage_collection_threshold: 0.8, memory_fraction: 0.9, roundup_power2_divisions: 8}}\n");
  BOOST_TEST(!scenario.run.set_to_none);
  BOOST_TEST(!scenario.optimizer.foreach);
  BOOST_TEST((device_of(scenario) == TapeDevice::cpu));
  BOOST_TEST(scenario.allocator.max_split_size == 128 * 1024 * 1024);
  BOOST_TEST(scenario.allocator.expandable_segments);
  BOOST_TEST(scenario.allocator.garbage_collection_threshold == 0.8);
  BOOST_TEST(scenario.allocator.memory_fraction.value() == 0.9);
  BOOST_TEST(scenario.allocator.roundup_power2_divisions == 8);
  BOOST_TEST((device_of(read(kToy)) == TapeDevice::cuda));
  BOOST_TEST((read(kToy).allocator == AllocatorSettings{}));
}

BOOST_AUTO_TEST_CASE(a_schedule_has_the_iterations_the_seed_and_the_stragglers_of_the_run) {
  const Schedule schedule =
      make_schedule(read(kToy + "run: {steps: 5, warmup_steps: 3, seed: 7, overlap_slowdown: 1.5,"
                                " stragglers: [{rank: 2, slowdown: 3}, {rank: 3, delay: 5ms}]}\n"));
  BOOST_TEST(schedule.iterations == 8u);
  BOOST_TEST(schedule.seed == 7u);
  BOOST_TEST(schedule.overlap_slowdown.value() == 1.5);
  BOOST_REQUIRE(schedule.ranks.size() == 4u);
  BOOST_TEST(schedule.ranks[2].slowdown == 3 * schedule.ranks[1].slowdown);
  BOOST_TEST(schedule.ranks[2].delay.value() == 0);
  BOOST_TEST(schedule.ranks[3].slowdown == schedule.ranks[1].slowdown);
  BOOST_TEST(schedule.ranks[3].delay.value() == 5e-3);
}

// What another job does not say is as this one's; stragglers are this one's alone.
BOOST_AUTO_TEST_CASE(every_job_has_its_nodes_and_what_it_says) {
  const Scenario scenario = read(kToy + R"(
run: {steps: 7, stragglers: [{rank: 1, slowdown: 2}]}
jobs:
  nodes: [3, 0]
  others:
    - {nodes: [1]}
    - {nodes: [2], model: {use: small_mlp, batch_per_gpu: 5}, strategy: {fsdp: {}}, optimizer: {adamw: {}}}
)");
  BOOST_TEST(scenario.cluster.node_count() == 2u);
  BOOST_REQUIRE(scenario.shared);
  BOOST_TEST(scenario.shared->cluster.node_count() == 4u);
  BOOST_TEST((scenario.shared->nodes == std::vector{NodeId(3), NodeId(0)}));
  BOOST_REQUIRE_EQUAL(scenario.shared->others.size(), 2u);
  const OtherJob &like = scenario.shared->others[0], &unlike = scenario.shared->others[1];
  BOOST_TEST((like.nodes == std::vector{NodeId(1)}));
  BOOST_TEST(like.scenario.model.name == "toy");
  BOOST_TEST(sync_in<TorchDdp>(like.scenario.strategy)->bucket_cap_mb == 25);
  BOOST_TEST(like.scenario.run.stragglers.empty());
  BOOST_TEST(make_schedule(like.scenario).ranks.size() == 1u);
  BOOST_TEST(unlike.scenario.model.name == "small_mlp");
  BOOST_TEST(unlike.scenario.batch_per_gpu == 5);
  BOOST_TEST(sync_in<TorchFsdp1>(unlike.scenario.strategy) != nullptr);
  BOOST_TEST(!unlike.scenario.shared);
  BOOST_TEST(make_schedule(scenario).ranks[1].slowdown == 2);
  BOOST_TEST(!read(kToy).shared);
}

BOOST_AUTO_TEST_CASE(an_override_equals_an_edit_of_the_file) {
  const auto document = Document::parse(kToy, "toy.yaml");
  const Scenario set = read_scenario(*document->with_overrides({"cluster.nodes=8", "run.seed=3"}));
  BOOST_TEST(set.cluster.gpu_count() == 8u);
  BOOST_TEST(set.run.seed == 3u);
}

/// kToy with another model section.
std::string toy_with(const std::string& model) {
  std::string text = kToy;
  const std::size_t begin = text.find("model:");
  return text.replace(begin, text.find("cluster:") - begin, "model: " + model + "\n");
}

BOOST_AUTO_TEST_CASE(an_architecture_says_which_shape_it_took) {
  const Scenario scenario = read(toy_with("{use: resnet50, batch_per_gpu: 2}"));
  BOOST_TEST(scenario.model.parameters() == 25557032);
  BOOST_TEST(contains(scenario.assumptions, "model.sample = " + scenario.model.sample));
}

BOOST_AUTO_TEST_CASE(channels_last_leaves_out_the_layout_conversions_of_image_models) {
  const auto converts = [](const std::string& options) {
    return read(toy_with("{use: resnet50, batch_per_gpu: 2" + options + "}"))
        .model.has_operator(OperatorKind::layout);
  };
  BOOST_TEST(converts(""));
  BOOST_TEST(converts(", channels_last: false"));
  BOOST_TEST(!converts(", channels_last: true"));
  const Scenario images = read(toy_with("{use: resnet50, batch_per_gpu: 2}"));
  BOOST_TEST(contains(images.assumptions, "model.channels_last = false"));
  const Scenario tokens = read(toy_with("{use: gpt2, batch_per_gpu: 2}"));
  BOOST_TEST(!contains(tokens.assumptions, "model.channels_last = false"));
}

BOOST_AUTO_TEST_CASE(kernels_of_megatrons_layouts_are_fused_unless_the_scenario_says_otherwise) {
  const auto compile = [](const std::string& strategy, const std::string& more = "") {
    const Scenario scenario =
        read("model: {use: llama_3_8b, batch_per_gpu: 2, precision: bf16_master" + more +
             "}\ncluster: {use: dgx_h100, nodes: 1}\nstrategy: " + strategy);
    const bool assumed = contains(scenario.assumptions,
                                  "model.compile = true: kernels are fused, as Megatron-LM's are");
    BOOST_TEST(assumed == (more.empty() && scenario.model.compile == Compile::library));
    return scenario.model.compile;
  };
  BOOST_TEST((compile("{tensor_parallel: 2}") == Compile::library));
  BOOST_TEST(
      (compile("{zero: {stage: 1}, pipeline_parallel: 2, micro_batches: 2}") == Compile::library));
  BOOST_TEST((compile("{ddp: {}, tensor_parallel: 2}", ", compile: false") == Compile::none));
  BOOST_TEST((compile("{ddp: {}, tensor_parallel: 2}", ", compile: blocks") == Compile::blocks));
  BOOST_TEST((compile("{fsdp2: {}, tensor_parallel: 2}") == Compile::none));
  BOOST_TEST(
      (compile("{pipeline_parallel: 2, micro_batches: 2}\nframework: torch") == Compile::none));
  BOOST_TEST((compile("{zero: {stage: 1}, tensor_parallel: 1}") == Compile::none));
  BOOST_TEST((compile("{zero: {stage: 1}}") == Compile::none));
}

BOOST_AUTO_TEST_CASE(torchtitan_checkpoints_every_second_block_and_of_one_none) {
  const auto checkpointed = [](int layers) {
    const Scenario scenario =
        read("model: {use: llama_3_8b, layers: " + std::to_string(layers) +
             ", batch_per_gpu: 1}\ncluster: {use: dgx_h100, nodes: 1}\nstrategy: {fsdp2: {}}\n"
             "framework: torchtitan");
    return std::count(scenario.checkpointed.begin(), scenario.checkpointed.end(), true);
  };
  BOOST_TEST(checkpointed(4) == 2);
  BOOST_TEST(checkpointed(1) == 0);
}

BOOST_AUTO_TEST_CASE(a_measured_whole_step_scales_the_costs_to_it) {
  const auto step = [](const std::string& options) {
    const Scenario scenario = read(toy_with("{use: resnet50, batch_per_gpu: 64" + options + "}"));
    return step_time(group_costs(scenario)[0], 2).value();
  };
  BOOST_TEST(std::abs(step(", measured: {samples_per_s: 400, gpus: 1, gradient_accumulation: 2}") -
                      0.32) < 1e-12);
  // Measured at twice the batch: half of its 0.32 s, and what does not shrink with the batch.
  const double from_128 = step(
      ", measured: {samples_per_s: 800, gpus: 1, batch_per_gpu: 128, gradient_accumulation: 2}");
  BOOST_TEST(from_128 >= 0.16);
  BOOST_TEST(from_128 < 0.17);
  BOOST_TEST(std::abs(step("") - 0.32) > 0.01);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
