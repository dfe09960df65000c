// Parts of a model for the ranks of a pipeline.
#include "model/stages.hpp"

#include <boost/test/unit_test.hpp>

#include "model/transformer.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(stages_test)
namespace {

Model gpt(std::int64_t layers, bool tied = true) {
  TransformerShape t;
  t.name = "gpt";
  t.layers = layers;
  t.hidden = 64;
  t.heads = t.kv_heads = 4;
  t.head_width = 16;
  t.feed_forward = 256;
  t.vocabulary = 512;
  t.tied = tied;
  return transformer_model(t, {.sequence = 32});
}

Model chain(std::size_t units) {
  Model model;
  model.units.resize(units);
  for (std::size_t i = 0; i < units; ++i) model.units[i].name = "u" + std::to_string(i);
  return model;
}

std::string refused(const Model& model, std::size_t stages,
                    const std::vector<std::int64_t>& counts) {
  std::string why_not;
  BOOST_TEST(split_into_stages(model, stages, counts, why_not).empty());
  return why_not;
}

BOOST_AUTO_TEST_CASE(embeddings_are_on_the_first_stage_and_logits_on_the_last) {
  std::string why_not;
  const auto ranges = split_into_stages(gpt(6), 3, {}, why_not);
  BOOST_TEST(why_not.empty());
  BOOST_TEST((ranges == std::vector<UnitRange>{{0, 3}, {3, 5}, {5, 8}}));
}

// As account_for_embedding_in_pipeline_split and account_for_loss_in_pipeline_split cut it.
BOOST_AUTO_TEST_CASE(stages_may_have_no_layer_but_the_ends) {
  std::string why_not;
  const auto ranges = split_into_stages(gpt(6), 4, {0, 3, 3, 0}, why_not);
  BOOST_TEST(why_not.empty());
  BOOST_TEST((ranges == std::vector<UnitRange>{{0, 1}, {1, 4}, {4, 7}, {7, 8}}));
}

BOOST_AUTO_TEST_CASE(networks_without_blocks_are_cut_by_units) {
  std::string why_not;
  BOOST_TEST(
      (split_into_stages(chain(4), 2, {}, why_not) == std::vector<UnitRange>{{0, 2}, {2, 4}}));
  BOOST_TEST(refused(chain(5), 2, {}) == "5 units do not divide into 2 stages");
}

BOOST_AUTO_TEST_CASE(what_is_wrong_with_a_split_is_said) {
  BOOST_TEST(refused(gpt(6), 4, {}) == "6 layers do not divide into 4 stages");
  BOOST_TEST(refused(gpt(6), 2, {3, 4}) ==
             "the split is of 7 layers on 2 stages; the model has 6, the pipeline 2");
  BOOST_TEST(refused(gpt(6), 3, {3, 0, 3}) == "stage 1 has nothing to compute");
}

BOOST_AUTO_TEST_CASE(stages_together_are_the_model_and_a_copy_of_the_shared_weight) {
  const Model model = gpt(4);
  const Model first = stage_of(model, {{0, 3}}), last = stage_of(model, {{3, 6}});
  BOOST_TEST(shared_weight(model) == 512 * 64);
  BOOST_TEST(first.parameters() + last.parameters() == model.parameters() + 512 * 64);
  BOOST_TEST(last.units.back().tensors.front() == 512 * 64);
  BOOST_TEST(shared_weight(gpt(4, false)) == 0);
  BOOST_TEST(stage_of(model, {{0, 6}}).parameters() == model.parameters());
}

BOOST_AUTO_TEST_CASE(chunks_say_what_they_are_given) {
  const Model part = stage_of(gpt(4), {{0, 2}, {4, 6}});
  BOOST_TEST_REQUIRE(part.chunks.size() == 2u);
  BOOST_TEST(part.chunks[0].input == 0u);
  BOOST_TEST(!part.chunks[0].has_loss);
  BOOST_TEST(part.chunks[1].first == 2u);
  BOOST_TEST(part.chunks[1].input > 0u);
  BOOST_TEST(part.chunks[1].has_loss);
}

BOOST_AUTO_TEST_CASE(the_first_blocks_of_each_part_are_chosen) {
  const Model model = gpt(6);
  BOOST_TEST((first_blocks(model, {{0, 4}, {4, 8}}, 1) ==
              std::vector<bool>{false, true, false, false, true, false, false, false}));
  BOOST_TEST((first_blocks(model, {{0, 4}, {4, 8}}, 9) ==
              std::vector<bool>{false, true, true, true, true, true, true, false}));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
