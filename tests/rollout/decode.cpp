#include "rollout/decode.hpp"
#include "model/mixers.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/data_folder.hpp"
#include "rollout/decode_views.hpp"
#include "scenario/hub.hpp"
#include "scenario/named_network.hpp"

namespace rehearse {
namespace {

BOOST_AUTO_TEST_SUITE(decode_steps)

Cluster cluster_of(const char* gpu, BytesPerSecond link) {
  Cluster cluster;
  Node node;
  node.gpus = 16;  // some rows spread a copy over two nodes' worth of ranks
  node.gpu = known_gpu(gpu);
  node.nvlink = NvLink{.bandwidth = link, .latency = Seconds(1e-6)};
  node.nics = 8;
  node.nic_bandwidth = BytesPerSecond(50e9);
  cluster.groups.push_back({.name = "gpus", .nodes = 1, .node = node});
  return cluster;
}

TransformerShape llama_8b() { return *built_in_shape("llama_3_8b"); }

TransformerShape mixture(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                         std::int64_t kv_heads, std::int64_t head_width, std::int64_t vocabulary,
                         const Experts& experts) {
  TransformerShape shape;
  shape.layers = layers;
  shape.hidden = hidden;
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.head_width = head_width;
  shape.vocabulary = vocabulary;
  shape.experts = experts;
  return shape;
}

/// Networks of the rows, as their config.json has them.
TransformerShape network_of(const std::string& name) {
  if (name == "MiniMax-M2.5") {
    TransformerShape shape =
        mixture(62, 3072, 48, 8, 128, 200'064, {.count = 256, .active = 8, .width = 1536});
    shape.head_norm = HeadNorm::all_heads;
    return shape;
  }
  if (name == "Qwen3-235B-A22B-FP8") return *built_in_shape("qwen3_235b_a22b");
  if (name == "gpt-oss-120b") {
    TransformerShape shape =
        mixture(36, 2880, 64, 8, 64, 201'088, {.count = 128, .active = 4, .width = 2880});
    shape.window = 128;
    shape.full_every = 2;
    return shape;
  }
  if (name == "GLM-5") {
    TransformerShape shape =
        mixture(78, 6144, 64, 64, 256, 154'880,
                {.count = 256, .active = 8, .width = 2048, .shared_width = 2048, .first_dense = 3});
    shape.feed_forward = 12'288;
    shape.window = 2048;
    shape.latent = LatentAttention{.query_rank = 2048,
                                   .key_rank = 512,
                                   .plain_width = 192,
                                   .rotated_width = 64,
                                   .value_width = 256};
    return shape;
  }
  return llama_8b();
}

ServedFormat format_of(const std::string& model, const std::string& precision) {
  if (model == "gpt-oss-120b") return ServedFormat::mxfp4;
  if (precision == "fp8") return ServedFormat::fp8;
  return precision == "fp4" ? ServedFormat::nvfp4 : ServedFormat::bf16;
}

BOOST_AUTO_TEST_CASE(a_token_of_the_cache_is_keys_and_values_of_every_layer) {
  const Cluster cluster = cluster_of("H100-SXM", BytesPerSecond(450e9));
  const DecodeModel one(llama_8b(), cluster, read_engine("vllm"), {});
  BOOST_TEST(one.cache_of_token().value() == 32 * 2 * 8 * 128 * 2.0);
  const DecodeModel eighth(llama_8b(), cluster, read_engine("vllm"), {.tensor_parallel = 8});
  BOOST_TEST(eighth.cache_of_token().value() == 32 * 2 * 128 * 2.0);
  // More tensor ranks than heads of keys hold copies.
  const DecodeModel sixteenth(llama_8b(), cluster, read_engine("vllm"), {.tensor_parallel = 16});
  BOOST_TEST(sixteenth.cache_of_token().value() == eighth.cache_of_token().value());
}

BOOST_AUTO_TEST_CASE(weights_are_the_networks_parameters) {
  const Cluster cluster = cluster_of("H100-SXM", BytesPerSecond(450e9));
  const DecodeModel one(llama_8b(), cluster, read_engine("vllm"), {});
  // 8,030,261,248 without 65 norms of 4,096.
  BOOST_TEST(one.weights().value() == 2 * (8'030'261'248.0 - 65 * 4096));
}

BOOST_AUTO_TEST_CASE(a_step_of_one_token_reads_its_weights) {
  const Engine engine = read_engine("tensorrt_llm");
  const Cluster cluster = cluster_of("H100-SXM", BytesPerSecond(450e9));
  const Gpu& gpu = cluster.groups.front().node.gpu;
  TransformerShape shape;
  shape.layers = 1;
  shape.hidden = shape.head_width = 1024;
  shape.heads = shape.kv_heads = 1;
  shape.feed_forward = 4096;
  shape.vocabulary = 32'000;
  const DecodeModel model(shape, cluster, engine, {});
  const DecodeStep step = model.step(1, 100);
  const double bandwidth = gpu.memory_bandwidth.value();
  const double peak = gpu.bf16.value(), overlap = engine.overlap;
  const auto product = [&](double parameters) {
    const double moved = 2 * parameters / (engine.weights * bandwidth);
    const double computed = 2 * parameters / (engine.products * peak);
    return std::cbrt(std::pow(moved, 3) + std::pow(computed, 3));
  };
  const double attention = 4.0 * 1024 * 1024, feed_forward = 3.0 * 1024 * 4096;
  BOOST_TEST(step.products.value() == product(attention) + product(feed_forward),
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(step.cache.value() == 100 * 2 * 1024 * 2 / (engine.cache * bandwidth),
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(step.head.value() == 2 * 1024 * 32e3 / (engine.weights * bandwidth),
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(step.kernels.value() == engine.kernels.layer * engine.kernel.hopper.value(),
             boost::test_tools::tolerance(1e-9));
  const double host = (engine.step + engine.sequence).value(), busy = step.gpu().value();
  BOOST_TEST(step.total().value() ==
                 std::pow(std::pow(host, overlap) + std::pow(busy, overlap), 1 / overlap) +
                     engine.answer.value(),
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(step.all_reduce.value() == 0);
  BOOST_TEST(step.waits.value() == 0);
}

BOOST_AUTO_TEST_CASE(more_work_takes_no_less_time) {
  const Cluster cluster = cluster_of("H200-SXM", BytesPerSecond(450e9));
  for (const char* name : {"Qwen3-235B-A22B-FP8", "GLM-5", "gpt-oss-120b"}) {
    const DecodeModel model(network_of(name), cluster, read_engine("vllm"),
                            {.tensor_parallel = 8, .format = ServedFormat::fp8});
    double last = 0;
    for (double sequences = 1; sequences <= 512; sequences *= 2) {
      const double now = model.step(sequences, 4096).total().value();
      BOOST_TEST(now > last);
      BOOST_TEST(model.step(sequences, 8192).total().value() > now);
      BOOST_TEST(model.step(sequences, 4096, 1024, 1024).total().value() > now);
      last = now;
    }
  }
}

BOOST_AUTO_TEST_CASE(a_network_of_other_layers_is_refused) {
  const Cluster cluster = cluster_of("H100-SXM", BytesPerSecond(450e9));
  TransformerShape hybrid = llama_8b();
  hybrid.parts = {{.mixer = mixer(StateSpace{})}};
  BOOST_CHECK_THROW(DecodeModel(hybrid, cluster, read_engine("vllm"), {}), std::invalid_argument);
  BOOST_CHECK_THROW(DecodeModel(llama_8b(), cluster, read_engine("vllm"), {.tensor_parallel = 32}),
                    std::invalid_argument);
}

/// A mixture's experts: what is read, what is computed at the grouped share, and the copies.
BOOST_AUTO_TEST_CASE(grouped_experts_take_what_their_tokens_and_copies_take) {
  const Engine engine = read_engine("vllm");
  const Cluster cluster = cluster_of("H200-SXM", BytesPerSecond(450e9));
  const Gpu& gpu = cluster.groups.front().node.gpu;
  const TransformerShape network =
      mixture(1, 1024, 8, 8, 128, 32'000, {.count = 64, .active = 4, .width = 512});
  const DecodeModel model(network, cluster, engine, {.tensor_parallel = 4});
  const double tokens = 4096, expert = 3.0 * 1024 * 512, bandwidth = gpu.memory_bandwidth.value();
  const double read = 64 * (1 - std::pow(1 - 4.0 / 64, tokens * engine.spread));
  const ExpertKernel& kernel = engine.experts.of.hopper;
  const double columns = 512.0 / 4, share = kernel.share * columns / (columns + kernel.narrow);
  const double moved = read * expert / 4 * 2 / (share * bandwidth);
  const double computed =
      2 * tokens * 4 * expert / 4 / (engine.grouped.of.hopper * gpu.bf16.value());
  const double copies = tokens * 4 * 1024 * engine.routed / bandwidth;
  BOOST_TEST(
      model.step(tokens, 1).experts.value() ==
          kernel.launch.value() + std::cbrt(std::pow(moved, 3) + std::pow(computed, 3)) + copies,
      boost::test_tools::tolerance(1e-9));
  // Whole experts have all of their columns.
  const DecodeModel dealt(network, cluster, engine, {.tensor_parallel = 4, .expert_parallel = 4});
  BOOST_TEST(dealt.step(1, 1).experts.value() < model.step(1, 1).experts.value());
  BOOST_CHECK_THROW(
      DecodeModel(network, cluster, engine, {.tensor_parallel = 4, .expert_parallel = 3}),
      std::invalid_argument);
  BOOST_CHECK_THROW(DecodeModel(llama_8b(), cluster, engine, {.expert_parallel = 2}),
                    std::invalid_argument);
}

/// Weights that are unpacked come at one rate on any memory that is faster.
BOOST_AUTO_TEST_CASE(unpacked_experts_are_read_at_most_at_their_rate) {
  const ExpertKernel kernel = read_engine("vllm").experts.unpacked;
  BOOST_REQUIRE(kernel.most);
  BOOST_TEST(kernel.rate(BytesPerSecond(4.8e12), 2880).value() == kernel.most->value());
  BOOST_TEST(kernel.rate(BytesPerSecond(1e12), 1e9).value() == kernel.share * 1e12,
             boost::test_tools::tolerance(1e-6));
}

BOOST_AUTO_TEST_CASE(an_engines_all_reduce_is_what_its_table_has) {
  const AllReduceTimes table = read_engine("sglang").all_reduce;
  const BytesPerSecond link = table.links.hopper;
  for (std::size_t i = 0; i < table.sizes.size(); ++i)
    BOOST_TEST(table.of(false, 8, table.sizes[i], link).value() == table.eight.hopper[i].value(),
               boost::test_tools::tolerance(1e-9));
  const Bytes between(std::sqrt(table.sizes[3].value() * table.sizes[4].value()));
  BOOST_TEST(table.of(false, 2, between, link).value() ==
                 std::sqrt(table.two.hopper[3].value() * table.two.hopper[4].value()),
             boost::test_tools::tolerance(1e-9));
  // Half the link: twice the bytes.
  BOOST_TEST(table.of(false, 4, table.sizes[5], 0.5 * link).value() ==
                 table.of(false, 4, table.sizes[6], link).value(),
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(table.of(true, 4, 2 * table.sizes.back(), table.links.blackwell).value() ==
                 2 * table.four.blackwell.back().value(),
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(!table.has(16, table.sizes.front()));
}

/// SGLang takes all prompts that wait in one step, which decodes nothing.
BOOST_AUTO_TEST_CASE(prompts_that_came_together_share_a_step) {
  const Cluster cluster = cluster_of("H200-SXM", BytesPerSecond(450e9));
  const DecodeModel model(llama_8b(), cluster, read_engine("sglang"), {});
  const auto waits = [&](double sequences, double prompt, double response) {
    const auto steady = model.steady(sequences, prompt, response);
    return (steady.time_per_output_token - steady.decode.total()).value();
  };
  // Four end in each step: 4 / (1 - exp(-4)) come where any come, and steps with a prompt are
  // fewer.
  const double come = 4, taken = 100 * come / (1 - std::exp(-come));
  const double one = model.step(0, 150, taken, 100).total().value();
  BOOST_TEST(waits(400, 100, 100) == 400 / taken * one, boost::test_tools::tolerance(1e-9));
  // Few come alone.
  const double alone = model.step(0, 100'100, 100, 100).total().value();
  BOOST_TEST(waits(2, 100, 200'000) == 1e-5 * alone, boost::test_tools::tolerance(1e-3));
}

struct Errors {
  std::vector<double> off;
  std::size_t within = 0;
  double at(double share) {
    std::ranges::sort(off);
    return off[static_cast<std::size_t>(share * static_cast<double>(off.size() - 1))];
  }
};

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream text(line);
  for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
  return cells;
}

/// The file of a row's engine and version.
std::string engine_of(const std::vector<std::string>& cells) {
  if (cells[0] == "trtllm") return "tensorrt_llm";
  if (cells[0] == "vllm" && cells[1] == "0.12.0") return "vllm_0_10";
  static const std::set<std::string> kEarlier{"", "0.15.1", "0.16.0", "0.17.0"};
  return cells[0] == "vllm" && kEarlier.contains(cells[1]) ? "vllm_0_17" : cells[0];
}

/// The time per output token that a row's setting is predicted to have.
double predicted(const std::vector<std::string>& cells) {
  static const std::map<std::string, Cluster> kClusters{
      {"h100_sxm", cluster_of("H100-SXM", BytesPerSecond(450e9))},
      {"h200_sxm", cluster_of("H200-SXM", BytesPerSecond(450e9))},
      {"b200_sxm", cluster_of("B200", BytesPerSecond(900e9))},
      {"b300_sxm", cluster_of("B300", BytesPerSecond(900e9))}};
  const auto number = [&](std::size_t cell) { return std::stod(cells[cell]); };
  const int tensor = std::stoi(cells[8]), experts = std::stoi(cells[9]) * std::stoi(cells[10]);
  Serving serving{.tensor_parallel = tensor, .format = format_of(cells[2], cells[4])};
  const TransformerShape network = network_of(cells[2]);
  if (network.experts) {
    serving.attention_data_parallel = std::max(1, experts / tensor);
    serving.expert_parallel = std::stoi(cells[10]);
  }
  const bool narrow_cache = cells[0] == "trtllm" || cells[3].starts_with("b");  // of InferenceMAX's
  if (network.latent || (cells[2] == "gpt-oss-120b" && narrow_cache))
    serving.cache_element = Bytes(1);
  const DecodeModel model(network, kClusters.at(cells[3]), read_engine(engine_of(cells)), serving);
  double prompt = number(5), response = number(6);
  const auto drawn = [](double tokens) { return tokens == 1024 || tokens == 8192; };
  if (drawn(prompt) && drawn(response)) {  // InferenceMAX draws them from 0.8 to 1 of that
    prompt *= 0.9;
    response *= 0.9;
  }
  // vLLM 0.12's rows are of one batch, whose prompts all come first.
  if (cells[0] == "vllm" && cells[1] == "0.12.0")
    return model.step(number(7), prompt + response / 2).total().value();
  return model.steady(number(7), prompt, response).time_per_output_token.value();
}

BOOST_AUTO_TEST_CASE(measured_times_of_an_output_token_are_met) {
  std::ifstream file(data_folder() / "tests" / "rollout" / "tpot.csv");
  BOOST_REQUIRE(file);
  std::string line;
  std::getline(file, line);
  std::map<std::string, Errors> errors;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = split(line);
    const double ratio = std::stod(cells[11]) / 1e3 / predicted(cells);
    Errors& of = errors[engine_of(cells) == "vllm_0_10" ? "vllm_0_10" : cells[0]];
    of.off.push_back(std::abs(1 / ratio - 1));
    const EngineError off = read_engine(engine_of(cells)).off;
    if (std::log(ratio) >= off.low && std::log(ratio) <= off.high) ++of.within;
  }
  const std::map<std::string, std::array<double, 2>> bounds{{"vllm", {0.06, 0.17}},
                                                            {"vllm_0_10", {0.4, 0.55}},
                                                            {"sglang", {0.09, 0.23}},
                                                            {"trtllm", {0.08, 0.19}}};
  for (const auto& [engine, most] : bounds) {
    Errors& of = errors.at(engine);
    BOOST_TEST_MESSAGE(engine << ": " << of.off.size() << " rows, median " << of.at(0.5) << ", p90 "
                              << of.at(0.9) << ", within " << of.within);
    BOOST_TEST(of.at(0.5) < most[0]);
    BOOST_TEST(of.at(0.9) < most[1]);
    const double share = static_cast<double>(of.within) / static_cast<double>(of.off.size());
    BOOST_TEST(share > 0.85);
  }
}

BOOST_AUTO_TEST_CASE(what_an_engine_cannot_serve_is_refused) {
  const Cluster amd = cluster_of("MI300X", BytesPerSecond(450e9));
  const Cluster old = cluster_of("A100-SXM-80", BytesPerSecond(300e9));
  BOOST_CHECK_THROW(DecodeModel(llama_8b(), amd, read_engine("tensorrt_llm"), {}),
                    std::invalid_argument);
  BOOST_CHECK_NO_THROW(DecodeModel(llama_8b(), amd, read_engine("vllm"), {}));
  const Serving eight{.format = ServedFormat::fp8};
  BOOST_CHECK_THROW(DecodeModel(llama_8b(), old, read_engine("tensorrt_llm"), eight),
                    std::invalid_argument);
  BOOST_CHECK_NO_THROW(DecodeModel(llama_8b(), old, read_engine("vllm"), eight));
  const DecodeModel model(llama_8b(), old, read_engine("vllm"), {});
  BOOST_CHECK_THROW(decode_table("llama", "a100", model, 131'000, 1000, 0, {1}),
                    std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(sixteen_bits_are_fp16_where_a_gpu_has_no_bf16) {
  const Cluster old = cluster_of("T4", BytesPerSecond(10e9));
  const Cluster ampere = cluster_of("A100-SXM-80", BytesPerSecond(300e9));
  BOOST_TEST(DecodeModel(llama_8b(), old, read_engine("vllm"), {}).takes_fp16());
  BOOST_TEST(!DecodeModel(llama_8b(), ampere, read_engine("vllm"), {}).takes_fp16());
}

BOOST_AUTO_TEST_CASE(weights_are_of_the_format_that_they_are_published_in) {
  const auto published = [](const std::string& section) {
    return published_as(Document::parse("quantization_config: " + section, "config.json")->root());
  };
  BOOST_TEST(read_served_network("llama_3_8b").published == "");
  BOOST_TEST(read_served_network("deepseek_v3").published == "fp8");
  BOOST_TEST(read_served_network("gpt_oss_120b").published == "mxfp4");
  BOOST_TEST(read_served_network("openai/gpt-oss-20b").published == "mxfp4");
  BOOST_TEST(published("{quant_method: fp8, fmt: e4m3}") == "fp8");
  BOOST_TEST(published("{quant_method: modelopt, quant_algo: NVFP4}") == "nvfp4");
  BOOST_TEST(published("{quant_method: compressed-tensors, config_groups: {group_0: {weights: "
                       "{num_bits: 8, type: float}}}}") == "fp8");
  BOOST_TEST(published("{quant_method: awq, bits: 4}") == "awq");
}

BOOST_AUTO_TEST_CASE(batches_end_where_the_cache_does) {
  const Cluster cluster = cluster_of("H100-SXM", BytesPerSecond(450e9));
  const DecodeModel model(llama_8b(), cluster, read_engine("vllm"), {});
  const DecodeTable table = decode_table("llama", "h100", model, 1000, 1000, 0, {});
  BOOST_TEST(table.rows.back().sequences <= table.places);
  BOOST_TEST(2 * table.rows.back().sequences > std::min(table.places, 512.0));
  const DecodeTable asked = decode_table("llama", "h100", model, 1000, 1000, 0, {1, 1e5});
  BOOST_TEST(asked.rows.front().fits);
  BOOST_TEST(!asked.rows.back().fits);
  BOOST_CHECK_THROW(decode_table("llama", "h100", model, 1000, 1000, 0, {1e5}),
                    std::invalid_argument);
  BOOST_CHECK_THROW(decode_table("llama", "h100", model, 1e6, 1e6, 0, {}), std::invalid_argument);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace rehearse
