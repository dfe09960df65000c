// What autograd keeps of small networks, and their FLOPs, beside what transformers' own networks
// were measured to keep and FlopCounterMode counts (tests/model/measure_with_transformers).
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <set>
#include <string>

#include "base/data_folder.hpp"
#include "kept.hpp"
#include "model/hugging_face/hugging_face.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(against_transformers_test)
namespace {

constexpr std::int64_t kBatch = 2, kTokens = 32;
/// Not reached. Where one key serves all queries (Falcon 7B) PyTorch's CPU kernels materialise
/// scores, which CUDA's do not: 6.4 % below. So does GPT-J, which has no fused attention there:
/// 3.2 % below. T5 shares its biases of distances among blocks: 2.2 % above. ModernBERT's heads are
/// rotated without torch.cat, so that attention's output is not copied: 4.8 % above.
const std::set<std::string> kElsewhere = {"falcon-7b", "t5-base", "gpt-j-6b", "ModernBERT-base"};

struct Measured {
  std::string name;
  double saved = 0, flops = 0;
};

std::vector<Measured> measured() {
  std::ifstream file(data_folder() / "tests/model/measured.txt");
  std::vector<Measured> all;
  for (Measured one; file >> one.name >> one.saved >> one.flops;) all.push_back(one);
  return all;
}

TransformerShape shape_of(const std::string& name) {
  return read_hugging_face(data_folder() / "tests/model/tiny" / (name + ".json")).shape;
}

BOOST_AUTO_TEST_CASE(forward_flops_equal_flop_counter_modes) {
  const auto all = measured();
  BOOST_TEST(all.size() == 50);
  for (const Measured& one : all) {
    const TransformerShape t = shape_of(one.name);
    const Model model = build_transformer(t, {.sequence = t.image > 0 ? 0 : kTokens});
    BOOST_TEST(kBatch * model.forward_flops() == one.flops, one.name);
  }
}

BOOST_AUTO_TEST_CASE(saved_tensors_are_autograds) {
  for (const Measured& one : measured()) {
    if (kElsewhere.contains(one.name)) continue;
    const TransformerShape t = shape_of(one.name);
    const Loss loss = t.causal() && t.image == 0 ? Loss::cross_entropy_fp32 : Loss::cross_entropy;
    const Model model = build_transformer(t, {.sequence = t.image > 0 ? 0 : kTokens, .loss = loss});
    const MemoryTape tape = memory_tape(
        model, {.precision = Precision::fp32, .batch = kBatch, .device = TapeDevice::cpu});
    const double off = kept(tape) / one.saved - 1;
    BOOST_TEST(std::abs(off) < 0.01, one.name << ": " << kept(tape) << " of " << one.saved);
  }
}

/// A further block, a norm, a product of two and as many logits as the head has.
BOOST_AUTO_TEST_CASE(predicted_tokens_keep_a_block_and_logits_more) {
  for (const bool tied : {false, true}) {
    TransformerShape t = {.name = "small",
                          .layers = 2,
                          .hidden = 64,
                          .heads = 4,
                          .kv_heads = 2,
                          .head_width = 16,
                          .feed_forward = 128,
                          .vocabulary = 100};
    t.tied = tied;
    const auto kept_by = [&](std::int64_t predicted) {
      t.predicted_tokens = predicted;
      return kept(memory_tape(build_transformer(t, {.sequence = kTokens}),
                              {.precision = Precision::fp32, .batch = kBatch}));
    };
    const double none = kept_by(0), one = kept_by(1), two = kept_by(2);
    const double logits = 4.0 * kBatch * kTokens * static_cast<double>(t.vocabulary);
    BOOST_TEST(one - none > logits);
    BOOST_TEST(two - one == one - none);
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
