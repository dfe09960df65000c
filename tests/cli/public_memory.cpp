// Peaks that public training runs reported, beside what their settings say.
#include <boost/test/unit_test.hpp>
#include <string>

#include "memory/memory.hpp"
#include "scenario/scenario.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(public_memory_test)
namespace {

constexpr double kMiB = 1024.0 * 1024.0, kGiB = 1024.0 * kMiB;

MemoryForecast forecast(const std::string& text) {
  const Scenario scenario = read_scenario(*Document::parse(text, "public.yaml"));
  return forecast_memory(make_schedule(scenario).programs[0], {});
}

double allocated_mib(const std::string& text) {
  return forecast(text).allocated_peak.value() / kMiB;
}

// pytorch/pytorch#41954: ResNet-50, batch 32: 3089 and 2988 MB. What it was tried with is
// benchmarks/distributed/ddp/benchmark.py: momentum 0.9, and gradients that are never set to None.
BOOST_AUTO_TEST_CASE(bucket_views_of_resnet50_peak_within_a_percent) {
  const auto with = [](const std::string& views) {
    return allocated_mib(
        "model: {use: resnet50, batch_per_gpu: 32}\n"
        "cluster: {use: dgx1_v100, nodes: 1, gpus_per_node: 2}\n"
        "strategy: {ddp: {gradient_as_bucket_view: " +
        views +
        "}}\n"
        "optimizer: {sgd_momentum: {}}\nrun: {set_to_none: false}\n");
  };
  BOOST_TEST(with("false") == 3089, boost::test_tools::tolerance(0.01));
  BOOST_TEST(with("true") == 2988, boost::test_tools::tolerance(0.01));
}

std::string llama_7b(const std::string& model, const std::string& cluster,
                     const std::string& strategy) {
  return "model: {use: llama_7b, " + model + "}\ncluster: {" + cluster + "}\nstrategy: {fsdp: {" +
         strategy + "}}\noptimizer: {adamw: {}}\n";
}

// foundation-model-stack/fms-fsdp, README: Llama-2-7B, hybrid sharding on 128 A100-80, batch 2 of
// 4,096 tokens, no checkpointing, bf16 MixedPrecision: it ran.
BOOST_AUTO_TEST_CASE(llama_7b_under_mixed_precision_fits_where_it_ran) {
  const std::string cluster = "use: dgx_a100, nodes: 16";
  const auto reserved = [&](const std::string& precision, const std::string& dtype) {
    const MemoryForecast one =
        forecast(llama_7b("batch_per_gpu: 2, sequence: 4096, precision: " + precision, cluster,
                          "sharding: hybrid_shard" + dtype));
    return one.reserved_peak->value() / kGiB;
  };
  BOOST_TEST(reserved("fp32", ", param_dtype: bf16, reduce_dtype: bf16") < 70);
  BOOST_TEST(reserved("fp32", ", param_dtype: bf16, reduce_dtype: fp32") < 70);
  BOOST_TEST(reserved("bf16", ", param_dtype: bf16") < 72);
  BOOST_TEST(reserved("bf16", "") > 80);  // autocast over fp32 units
}

// tatsu-lab/stanford_alpaca#190: Llama-7B on eight A100-40 under the Trainer's FSDP in bf16
// trained.
BOOST_AUTO_TEST_CASE(llama_7b_on_eight_a100_40_fits_as_it_did) {
  const MemoryForecast one =
      forecast(llama_7b("batch_per_gpu: 1, sequence: 512, precision: bf16, loss: huggingface",
                        "use: aws_p4d, nodes: 1", "param_dtype: bf16, gradient_accumulation: 8"));
  BOOST_TEST(one.reserved_peak->value() / kGiB < 38);
}

// intelligent-machine-learning/dlrover, atorch/examples/llama2: autocast under FSDP, AdamW, the
// blocks checkpointed: 39596.3 MiB on 8 GPUs and 34776.7 on 16. The difference is 12 bytes of each
// parameter, fp32 weights and states. Of the level 13.3 GiB are missing here; why is not known.
BOOST_AUTO_TEST_CASE(shards_of_llama_7b_shrink_as_measured) {
  const auto on = [](const std::string& nodes) {
    return allocated_mib(
        llama_7b("batch_per_gpu: 4, sequence: 4096, precision: bf16, loss: "
                 "huggingface, activation_checkpointing: {units: [layers.*]}",
                 "use: dgx_a100, nodes: " + nodes, ""));
  };
  BOOST_TEST(on("1") - on("2") == 39596.3 - 34776.7, boost::test_tools::tolerance(0.002));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
