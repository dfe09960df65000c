// The rules that a layout must keep, with their exact messages.
#include <boost/test/unit_test.hpp>

#include "model/layout_rules.hpp"
#include "model/transformer.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(layout_rules_test)
namespace {

const TransformerShape& llama_70b() { return *built_in_shape("llama_70b"); }

std::string first(const TransformerShape& t, const LayoutDegrees& layout) {
  const auto found = layout_findings(t, layout);
  return found.empty() ? "" : found.front().message;
}

BOOST_AUTO_TEST_CASE(a_usual_layout_breaks_no_rule) {
  BOOST_TEST(
      layout_findings(llama_70b(), {.model = {.tensor = 8, .sequence_parallel = true, .context = 2},
                                    .pipeline = 4,
                                    .virtual_stages = 5,
                                    .micro_batches = 16,
                                    .tokens = 8192,
                                    .gpus = 128,
                                    .nvlink_domain = 8})
          .empty());
}

BOOST_AUTO_TEST_CASE(tensor_ranks_divide_heads_and_channels) {
  BOOST_TEST(first(llama_70b(), {.model = {.tensor = 3}}) ==
             "tensor_parallel 3 does not divide 64 attention heads");
  BOOST_TEST(layout_findings(llama_70b(), {.model = {.tensor = 3}}).front().remedy ==
             "1, 2, 4, 8, 16, 32 and 64 do");
  TransformerShape t = llama_70b();
  t.kv_heads = 4;
  t.heads = 24;
  t.feed_forward = 28662;
  BOOST_TEST(first(t, {.model = {.tensor = 6}}) ==
             "tensor_parallel 6 neither divides 4 key-value heads nor is a multiple");
  BOOST_TEST(first(t, {.model = {.tensor = 4}}) ==
             "tensor_parallel 4 does not divide 28662 channels of a feed-forward layer");
  BOOST_TEST(
      first(llama_70b(), {.model = {.tensor = 8, .sequence_parallel = true}, .tokens = 4100}) ==
      "tensor_parallel 8 does not divide 4100 tokens of a rank under sequence_parallel");
}

BOOST_AUTO_TEST_CASE(context_ranks_cut_a_causal_sequence_into_twice_as_many_pieces) {
  BOOST_TEST(
      first(llama_70b(), {.model = {.context = 4}, .tokens = 4100}) ==
      "context_parallel 4 cuts a sequence into 8 pieces; 4100 tokens have none of one length");
  const ModelParallel ulysses{.tensor = 8, .context = 3, .context_method = ContextMethod::ulysses};
  BOOST_TEST(first(llama_70b(), {.model = ulysses, .tokens = 4096 * 3}) ==
             "context_parallel 3 does not divide 8 attention heads of a rank, which method ulysses "
             "exchanges");
  BOOST_TEST(first(llama_70b(), {.model = {.context = 2}, .fused_attention = false}) ==
             "context_parallel needs fused attention");
}

BOOST_AUTO_TEST_CASE(expert_ranks_divide_experts) {
  BOOST_TEST(first(llama_70b(), {.model = {.expert = 2}}) ==
             "expert_parallel 2, but llama_70b has no experts");
  TransformerShape t = llama_70b();
  t.experts = Experts{.count = 8, .active = 2, .width = 14336};
  BOOST_TEST(first(t, {.model = {.expert = 3}}) == "expert_parallel 3 does not divide 8 experts");
  BOOST_TEST(first(t, {.model = {.expert_tensor = 3}}) ==
             "expert_tensor_parallel 3 does not divide 14336 channels of an expert");
  BOOST_TEST(first(t, {.model = {.tensor = 2}}) ==
             "experts under tensor_parallel need sequence_parallel: true");
  BOOST_TEST(first(t, {.model = {.expert = 8}, .gpus = 12}) ==
             "expert 8 x expert_tensor 1 = 8 GPUs do not divide a stage's 12 GPUs");
}

BOOST_AUTO_TEST_CASE(tokens_reach_experts_in_ways_that_suit_them) {
  TransformerShape t = llama_70b();
  t.experts = Experts{.count = 8, .active = 2, .width = 14336};
  BOOST_TEST(first(t, {.model = {.expert = 8, .expert_overlap = true}}) ==
             "llama_70b has no shared experts, which compute beside dispatch");
  BOOST_TEST(first(t, {.model = {.expert = 8, .dispatch = ExpertDispatch::deepep}, .gpus = 8}) ==
             "deepep hands tokens on by NVLink, which these nodes lack");
  BOOST_TEST(first(t, {.model = {.expert = 8}, .gpus = 8, .stages_agree = false}) ==
             "stages of experts would be other ranks: before pp, the order spans unlike numbers of "
             "ranks with expert 8 x expert_tensor 1 and tensor 1 x context 1");
  t.experts->shared_width = 14336;
  BOOST_TEST(first(t, {.model = {.expert = 8,
                                 .dispatch = ExpertDispatch::all_gather,
                                 .expert_overlap = true}}) ==
             "shared experts compute beside dispatch: all_to_all alone, not all_gather");
  t.experts->capacity = 1.25;
  BOOST_TEST(first(t, {.model = {.expert = 8, .imbalance = {1.2}}}) ==
             "a capacity fills every expert up to it, whatever tokens choose");
  BOOST_TEST(first(llama_70b(), {.model = {.expert_tensor = 2}}) ==
             "expert_tensor_parallel 2, but llama_70b has no experts");
}

BOOST_AUTO_TEST_CASE(stages_divide_blocks) {
  BOOST_TEST(first(llama_70b(), {.pipeline = 3}) == "80 blocks make no 3 even stages");
  BOOST_TEST(first(llama_70b(), {.pipeline = 8, .virtual_stages = 3}) ==
             "80 blocks make no 8 x 3 even stages");
  BOOST_TEST(first(llama_70b(), {.pipeline = 3, .even_split = false}).empty());
  BOOST_TEST(first(llama_70b(), {.pipeline = 82, .even_split = false}).empty());
  BOOST_TEST(first(llama_70b(), {.pipeline = 128, .even_split = false}) ==
             "80 blocks are too few for 128 stages");
  BOOST_TEST(first(llama_70b(), {.virtual_stages = 2}) ==
             "virtual_stages 2 needs pipeline_parallel of 2 or more");
  BOOST_TEST(
      first(llama_70b(), {.pipeline = 4, .virtual_stages = 5, .micro_batches = 6}) ==
      "an interleaved schedule takes micro-batches in rounds of 4 (pipeline_parallel); got 6");
  BOOST_TEST(first(llama_70b(), {.model = {.tensor = 8}, .pipeline = 4, .gpus = 48}) ==
             "tensor 8 x context 1 x pipeline 4 = 32 GPUs of a replica do not divide 48 GPUs");
}

BOOST_AUTO_TEST_CASE(doubtful_layouts_are_legal) {
  const auto doubt = [](const LayoutDegrees& layout) {
    const auto found = layout_findings(llama_70b(), layout);
    BOOST_TEST_REQUIRE(found.size() == 1);
    BOOST_TEST((found[0].kind == LayoutFinding::Kind::doubtful));
    return found[0].message;
  };
  BOOST_TEST(doubt({.model = {.tensor = 8}, .nvlink_domain = 4}) ==
             "tensor_parallel 8 leaves NVLink, which joins 4 GPUs: every block waits for the "
             "network");
  BOOST_TEST(doubt({.model = {.tensor = 16}}) ==
             "tensor_parallel 16 exceeds 8 key-value heads: each block gathers queries, keys and "
             "values");
  BOOST_TEST(doubt({.model = {.sequence_parallel = true}}) ==
             "sequence_parallel does nothing without tensor_parallel");
  BOOST_TEST(doubt({.pipeline = 8, .micro_batches = 4}) == "4 micro-batches never fill 8 stages");
}

BOOST_AUTO_TEST_CASE(only_stacks_of_blocks_over_tokens_have_shares) {
  TransformerShape t = llama_70b();
  t.family = "vit";
  t.image = 224;
  BOOST_TEST(first(t, {.model = {.tensor = 2}}) ==
             "no share of vit is known: it is no stack of blocks over tokens");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
