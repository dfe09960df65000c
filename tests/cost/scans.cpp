// Scans of linear attention beside what others measured of the same kernels.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "cost/roofline.hpp"
#include "model/mixers.hpp"
#include "model/transformer.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(scans_test)
namespace {

Gpu gpu_of(const std::string& cluster) {
  const std::string text = "{use: " + cluster + ", nodes: 1}";
  return read_cluster(Document::parse(text, "c.yaml")->root()).groups.at(0).node.gpu;
}

/// Milliseconds of the scan in a block, of one sequence or several; and of so many operators before
/// and behind it.
double scan_ms(const Gpu& gpu, MixerPtr scanned, std::int64_t tokens, double samples,
               Direction direction, std::size_t before = 0, std::size_t behind = 0) {
  TransformerShape t;
  t.layers = 1;
  t.hidden = t.feed_forward = 128;
  t.heads = t.kv_heads = 1;
  t.head_width = 128;
  t.vocabulary = 64;
  t.parts = {{std::move(scanned)}};
  const Model model = transformer_model(t, {.sequence = tokens});
  const Roofline roofline(gpu, Precision::bf16_pure, {}, false);
  Seconds sum{0};
  const std::vector<Operator>& all = model.units[1].operators;
  for (std::size_t i = before; i + behind < all.size(); ++i)
    if (all[i].kind == OperatorKind::scan)
      for (std::size_t at = i - before; at <= i + behind; ++at)
        sum += roofline.time(all[at], samples, direction);
  return sum.value() * 1e3;
}

MixerPtr delta_net(std::int64_t heads) {
  return mixer(LinearAttention{.key_heads = heads, .value_heads = heads});
}

struct Row {
  std::int64_t heads, tokens;
  double samples, forward, backward;  ///< ms
};

/// The mean of the absolute errors, and the largest.
void check_rows(const std::string& cluster, const std::vector<Row>& rows, double mean,
                double most) {
  const Gpu gpu = gpu_of(cluster);
  double sum = 0, largest = 0;
  int count = 0;
  for (const Row& row : rows) {
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      const double measured = direction == Direction::forward ? row.forward : row.backward;
      if (measured == 0) continue;
      const double own = scan_ms(gpu, delta_net(row.heads), row.tokens, row.samples, direction);
      const double error = std::abs(own / measured - 1);
      BOOST_TEST_MESSAGE(row.heads << " heads, " << row.samples << " x " << row.tokens << ": "
                                   << own << " of " << measured);
      sum += error;
      largest = std::max(largest, error);
      ++count;
    }
  }
  BOOST_TEST(sum / count <= mean, sum / count << " in the mean");
  BOOST_TEST(largest <= most, largest << " at the most");
}

// QwenLM/FlashQLA@6e5d2ea, benchmark/benchmark_results_H200.txt: flash-linear-attention 0.5.1.
BOOST_AUTO_TEST_CASE(a_gated_delta_rule_takes_what_an_h200_took) {
  check_rows("dgx_h200",
             {{4, 8192, 1, 0, 0.606},
              {8, 8192, 1, 0.234, 0.722},
              {16, 8192, 1, 0.334, 0.957},
              {32, 8192, 1, 0.500, 1.444},
              {48, 8192, 1, 0.665, 0},
              {64, 8192, 1, 0.814, 0},
              {4, 32768, 1, 0, 2.311},
              {8, 32768, 1, 0.902, 2.743},
              {16, 32768, 1, 1.275, 3.701},
              {32, 32768, 1, 1.939, 5.697},
              {64, 32768, 1, 3.331, 0},
              {32, 8192, 4, 1.952, 5.721},
              {32, 4096, 8, 1.968, 5.781},
              {16, 4096, 8, 0.978, 2.973}},
             0.07, 0.15);
}

// And @5f6aa53, benchmark_results_GB200.txt.
BOOST_AUTO_TEST_CASE(a_gated_delta_rule_takes_what_a_gb200_took) {
  check_rows("dgx_gb200_nvl72",
             {{4, 8192, 1, 0, 0.671},
              {8, 8192, 1, 0.264, 0.798},
              {16, 8192, 1, 0.342, 1.013},
              {32, 8192, 1, 0.478, 1.446},
              {48, 8192, 1, 0.655, 0},
              {64, 8192, 1, 0.755, 0},
              {8, 32768, 1, 1.016, 3.068},
              {16, 32768, 1, 1.289, 3.934},
              {32, 32768, 1, 1.812, 5.714},
              {64, 32768, 1, 2.943, 0},
              {32, 8192, 4, 1.806, 5.583}},
             0.08, 0.16);
}

/// flash-linear-attention's chunk_kda with its norms of queries and keys: what moves bytes stands
/// before what multiprocessors are busy with, in either pass; norms stand before it, or behind.
double kimi_ms(const Gpu& gpu, std::int64_t heads, std::int64_t tokens, double samples,
               Direction direction) {
  const bool forward = direction == Direction::forward;
  return scan_ms(gpu, mixer(KimiDeltaAttention{.heads = heads}), tokens, samples, direction,
                 forward ? 3 : 1, forward ? 0 : 2);
}

struct KimiRow {
  const char* gpu;
  std::int64_t heads, tokens;
  double samples, measured;  ///< ms
};

double kimi_error(const std::vector<KimiRow>& rows, Direction direction) {
  double sum = 0;
  for (const KimiRow& row : rows) {
    const double own = kimi_ms(known_gpu(row.gpu), row.heads, row.tokens, row.samples, direction);
    BOOST_TEST_MESSAGE(row.gpu << ", " << row.heads << " heads, " << row.samples << " x "
                               << row.tokens << ": " << own << " of " << row.measured);
    sum += std::abs(own / row.measured - 1);
  }
  return sum / static_cast<double>(rows.size());
}

// Fitted to the H200's first row. Sources: inclusionAI/cuLA@1bc8789, BENCHMARK_H200.md, and
// @0b252e7, BENCHMARK_GB200.md; PaddlePaddle/flash-attention#133 on an H800; BENCHMARK_H20.md and
// BENCHMARK_TRAIN_RTX5090.md of MoonshotAI/FlashKDA@9f54414 and @070933c.
BOOST_AUTO_TEST_CASE(kimi_delta_attention_takes_forward_what_five_gpus_took) {
  BOOST_TEST(kimi_error({{"H200-SXM", 64, 8192, 1, 1.7774},
                         {"H200-SXM", 64, 16384, 1, 3.5038},
                         {"H200-SXM", 64, 16384, 2, 6.9413},
                         {"GB200", 64, 8192, 1, 1.389},
                         {"GB200", 64, 16384, 2, 5.340},
                         {"H800-SXM", 96, 8192, 1, 3.268},
                         {"H800-SXM", 16, 16384, 2, 2.299},
                         {"H20", 64, 8192, 1, 2.9587},
                         {"RTX-5090", 64, 8192, 1, 3.5908},
                         {"RTX-5090", 96, 8192, 1, 5.4185}},
                        Direction::forward) <= 0.08);
}

// docs/kda_h64_8k_15seq_fla_baseline.md of inclusionAI/cuLA@d52cb15, and the RTX 5090's above.
BOOST_AUTO_TEST_CASE(kimi_delta_attention_takes_backward_what_two_gpus_took) {
  BOOST_TEST(kimi_error({{"GB200", 64, 8192, 1, 3.471},
                         {"RTX-5090", 64, 8192, 1, 15.3251 - 3.5908},
                         {"RTX-5090", 96, 8192, 1, 23.4677 - 5.4185}},
                        Direction::backward) <= 0.05);
}

// NVIDIA/Megatron-LM#5829: Nemotron 3 Nano's on a Blackwell, 369 us. Besides its products the
// states of chunks, 4,096 channels by 128, are written and read twice each as fp32.
BOOST_AUTO_TEST_CASE(a_scan_of_mamba_and_its_states_take_what_a_blackwell_took) {
  const Gpu gpu = gpu_of("dgx_b200");
  const double scanned = scan_ms(gpu, mixer(StateSpace{}), 8192, 1, Direction::forward);
  const double states = 8192 / 128 * 4096.0 * 128;
  const double products = 7 * 8192 * 4096.0 * 128 / (0.69e12 * 148) * 1e3;
  BOOST_CHECK_CLOSE(scanned, products, 1);  // and three launches
  BOOST_CHECK_CLOSE(scanned + 16 * states / gpu.memory_bandwidth.value() * 1e3, 0.369, 4);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
