// What a plan would choose among layouts that others measured, beside the best of these. Nothing
// was fitted to their order.
#include <fmt/format.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "../study/fixtures.hpp"
#include "base/child_process.hpp"
#include "planner/layouts/layout_simulator.hpp"

namespace data = boost::unit_test::data;

namespace rehearse {
namespace {

/// A step of a layout: "tensor pipeline micro_batch", and seconds.
struct Measured {
  std::string layout;
  double step;
};
struct Rivals {
  std::string name, model, cluster, strategy;
  int global_batch;
  std::vector<Measured> measured;
  double most = 1.03;  ///< what the first choice costs, over the best
};

/// Megatron-LM's GPT on A100-80 (VIA-Research/vTrain f8dda84, ground_truth_multi.csv, MIT).
std::string gpt(int layers, int hidden, int heads) {
  return fmt::format(
      "transformer: {{layers: {}, hidden_size: {}, heads: {}, intermediate_size: {}, vocab_size: "
      "51200, activation: gelu, norm: layernorm, position: learned, bias: true, tie_embeddings: "
      "true, dropout: 0.1}}, sequence: 2048, attention: eager, fused_softmax: true, "
      "precision: fp16_master, activation_checkpointing: {{units: [layers.*]}}",
      layers, hidden, heads, 4 * hidden);
}

/// Some layers of Llama 3 on eight B200s (MooreThreads/SimuMax 4dcaae5, docs/b200, Apache-2.0).
std::string llama(int layers, int hidden, int heads, int kv_heads, int channels) {
  return fmt::format(
      "transformer: {{layers: {}, hidden_size: {}, heads: {}, kv_heads: {}, intermediate_size: {}, "
      "vocab_size: 128256}}, sequence: 4096, precision: bf16_master",
      layers, hidden, heads, kv_heads, channels);
}

const std::string k70b = llama(12, 8192, 64, 8, 28672), k405b = llama(4, 16384, 128, 16, 53248);
const std::string kB200 = "{use: dgx_b200, nodes: 1}";

const std::vector<Rivals> kRivals = {
    {"GPT 3.6B on 64",
     gpt(30, 3072, 32),
     "{use: dgx_a100, nodes: 8, nics: 4}",
     "ddp: {}",
     512,
     {{"1 1 8", 3.5665},
      {"1 1 4", 3.6383},
      {"1 1 2", 3.7005},
      {"2 1 8", 3.9752},
      {"2 1 4", 4.0782},
      {"2 1 2", 4.2642},
      {"4 1 8", 4.6344},
      {"4 1 4", 4.764},
      {"1 2 2", 4.0349},
      {"1 2 4", 4.3821},
      {"1 2 8", 5.0456},
      {"8 1 8", 5.178}}},
    {"GPT 18.4B on 256",
     gpt(40, 6144, 48),
     "{use: dgx_a100, nodes: 32, nics: 4}",
     "ddp: {}",
     1024,
     {{"8 1 8", 9.6036},
      {"8 1 4", 9.9276},
      {"8 1 2", 10.4533},
      {"4 2 2", 10.0316},
      {"4 2 4", 10.9504},
      {"4 2 8", 10.8563},
      {"2 4 4", 10.825},
      {"8 2 2", 10.4348}},
     // It misses: two tensor groups on a node, in two stages, are predicted 5 to 13 % too fast, all
     // others within 1 %. What their replicas share on the way out of the node is not known.
     1.05},
    {"12 layers of Llama 3 70B, 16 sequences",
     k70b,
     kB200,
     "zero: {stage: 1}",
     16,
     {{"1 2 1", 0.843}, {"2 1 1", 0.7255}, {"4 1 1", 0.7656}}},
    {"12 layers of Llama 3 70B, 32 sequences",
     k70b,
     kB200,
     "zero: {stage: 1}",
     32,
     {{"1 2 1", 1.4768}, {"2 1 1", 1.387}, {"8 1 1", 2.0737}}},
    {"4 layers of Llama 3 405B, 16 sequences",
     k405b,
     kB200,
     "zero: {stage: 1}",
     16,
     {{"1 2 1", 1.0746}, {"2 1 1", 0.9073}, {"4 1 1", 0.8996}}},
    {"4 layers of Llama 3 405B, 32 sequences",
     k405b,
     kB200,
     "zero: {stage: 1}",
     32,
     {{"1 2 1", 1.9354}, {"2 1 1", 1.7168}, {"8 1 1", 1.9018}}},
    // Those that are measured to be best, and take long to play.
    {"GPT 39.1B on 512",
     gpt(48, 8192, 64),
     "{use: dgx_a100, nodes: 64, nics: 4}",
     "ddp: {}",
     1536,
     {{"4 4 2", 13.8755},
      {"4 4 4", 15.6256},
      {"4 8 2", 16.0706},
      {"4 16 2", 14.5296},
      {"8 2 2", 14.614},
      {"8 2 4", 14.7573},
      {"8 2 8", 15.2128},
      {"8 4 2", 14.7134},
      {"8 4 4", 14.7507},
      {"8 4 8", 15.8145},
      {"8 8 2", 15.0019},
      {"8 8 4", 14.9671}}},
    {"GPT 175B on 512",
     gpt(96, 12288, 96),
     "{use: dgx_a100, nodes: 64, nics: 4}",
     "ddp: {}",
     1536,
     {{"4 32 2", 53.9096},
      {"4 16 2", 54.2559},
      {"4 16 4", 57.72},
      {"8 8 2", 55.1096},
      {"8 8 4", 58.2403},
      {"8 16 2", 56.3158},
      {"8 16 4", 57.5043},
      {"2 32 2", 57.4112}}}};
constexpr std::size_t kLong = 2;

std::size_t sets() { return kRivals.size() - (std::getenv("REHEARSE_ALL") == nullptr ? kLong : 0); }

double predicted(const Study& study, const Point& point) {
  const auto document = scenario_at(study, point);
  const auto report = nlohmann::json::parse(
      in_child_process([&] { return layout_simulator(false).simulator.predict(*document); }));
  return report.at("step_time_s").get<double>();
}

BOOST_DATA_TEST_CASE(the_first_choice_is_nearly_the_best_measured, data::xrange(sets()), number) {
  const Rivals& rivals = kRivals[number];
  BOOST_TEST_MESSAGE(rivals.name);
  const Scratch scratch;
  scratch.write("base.yaml",
                fmt::format("model: {{{}, batch_per_gpu: 1}}\ncluster: {}\nstrategy: {{{}}}\n"
                            "optimizer: {{adamw: {{fused: true}}}}\n"
                            "train: {{global_batch: {{sequences: {}}}}}\n"
                            "run: {{steps: 1, warmup_steps: 1}}\n",
                            rivals.model, rivals.cluster, rivals.strategy, rivals.global_batch));
  const Plan plan =
      read_plan(scratch.write("p.yaml",
                              "scenario: base.yaml\nobjective: throughput\n"
                              "search: {parallelism: [tensor, pipeline, micro_batch]}\n"),
                {});
  double first = 0, first_predicted = 0, best = 0;
  std::size_t found = 0;
  for (const Point& point : plan.study.points) {
    std::vector<std::string> degrees = labels_of(plan.study, point);
    std::erase(degrees, "megatron");  // the framework of all
    const std::string layout = fmt::format("{}", fmt::join(degrees, " "));
    const auto measured = std::ranges::find(rivals.measured, layout, &Measured::layout);
    if (measured == rivals.measured.end()) continue;
    ++found;
    const double step = predicted(plan.study, point);
    BOOST_TEST_MESSAGE(
        fmt::format("{}: {:.3f} s predicted, {:.3f} s measured", layout, step, measured->step));
    if (best == 0 || measured->step < best) best = measured->step;
    if (first != 0 && step >= first_predicted) continue;
    first = measured->step;
    first_predicted = step;
  }
  BOOST_TEST(found == rivals.measured.size());
  BOOST_TEST(first <= rivals.most * best);
}

}  // namespace
}  // namespace rehearse
