// Networks with keys that change what their layers are given: each has a tape, and closed forms say
// what it keeps.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "kept.hpp"
#include "model/adaptation.hpp"
#include "model/layout_rules.hpp"
#include "model/stages.hpp"
#include "model/tape/autograd.hpp"
#include "shares.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(tape_variants_test)
namespace {

namespace data = boost::unit_test::data;

/// Each tensor is taken once, and given back unless it is a parameter's gradient.
void check_whole(const MemoryTape& tape, const std::string& what) {
  std::vector<int> taken(tape.tensors.size()), returned(tape.tensors.size());
  for (const UnitTape& unit : tape.units)
    for (const auto* events : {&unit.forward, &unit.backward})
      for (const TapeEvent& event : *events) ++(event.takes ? taken : returned).at(event.tensor);
  for (std::size_t i = 0; i < tape.tensors.size(); ++i) {
    const bool stays = tape.tensors[i].role == TensorRole::parameter_gradient;
    BOOST_TEST_REQUIRE((taken[i] == 1 && returned[i] == (stays ? 0 : 1)), what << ": tensor " << i);
  }
}

std::vector<std::string> transformer_names() {
  std::vector<std::string> names;
  for (const std::string& name : architecture_names())
    if (built_in_shape(name) != nullptr) names.push_back(name);
  return names;
}

/// Two blocks with all that the network has.
TransformerShape few_layers(const std::string& name) {
  TransformerShape t = *built_in_shape(name);
  t.layers = std::min<std::int64_t>(t.layers, std::max<std::size_t>(2, t.parts.size()));
  return t;
}

bool may_be_split(const TransformerShape& t, const ModelParallel& parallel) {
  const auto findings = layout_findings(t, {.model = parallel, .tokens = 64});
  return std::ranges::none_of(findings, [](const LayoutFinding& found) {
    return found.kind == LayoutFinding::Kind::refused;
  });
}

void check_variants(const TransformerShape& t, int tensor) {
  const ModelParallel parallel{.tensor = tensor, .sequence_parallel = tensor > 1};
  if (tensor > 1 && !may_be_split(t, parallel)) return;
  const ModelShape shape = t.image > 0 ? ModelShape{} : ModelShape{.sequence = 64};
  for (const Compile compile : {Compile::none, Compile::whole}) {
    const Model model = compiled(share_of(t, shape, parallel), compile);
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::bf16_pure}) {
      const TapeOptions options{.precision = precision, .batch = 2};
      const std::string what = t.name + ", tensor " + std::to_string(tensor);
      check_whole(memory_tape(model, options), what);
      check_whole(memory_tape(recomputing_attention(model), options), what + ", selective");
    }
  }
}

BOOST_DATA_TEST_CASE(every_transformer_has_a_tape_whatever_splits_or_fuses_its_heads,
                     data::make(transformer_names()), name) {
  for (const bool fused : {false, true}) {
    TransformerShape t = few_layers(name);
    t.fused_qkv = t.fused_qkv || fused;
    for (const int tensor : {1, 2, 4, 8, 16, 32}) check_variants(t, tensor);
  }
}

double kept_by_second_block(const Model& model) {
  return kept_by(memory_tape(model, {.precision = Precision::bf16_pure, .batch = 2}), 2);
}

// Attention that runs again keeps what it is given; not its output, of which the product has a
// copy, each row's sum, and the generator's state.
BOOST_AUTO_TEST_CASE(recomputed_latent_attention_keeps_what_it_is_given) {
  const Model model = transformer_model(latent(), kTokens);
  const double rows = 2.0 * 256 * 16;
  check_close(kept_by_second_block(model) - kept_by_second_block(recomputing_attention(model)),
              rows * 32 * 2 + rows * 4 + 16);
}

BOOST_AUTO_TEST_CASE(a_tensor_that_is_not_there_is_an_error_of_ours) {
  tape::Tensors sides(1);
  BOOST_CHECK_THROW(sides[1], InternalError);
  BOOST_CHECK_THROW(tape::Tensors().front(), InternalError);
}

/// Bytes of what a chunk sends, or is given; 0: nothing.
double bytes_of(const MemoryTape& tape, const std::optional<std::uint32_t>& tensor) {
  return tensor ? tape.tensors.at(*tensor).size.value() : 0;
}

// One rank's output is the next one's input, and so are the gradients on their way back.
BOOST_DATA_TEST_CASE(stages_send_what_the_next_ones_are_given, data::make(transformer_names()),
                     name) {
  const TransformerShape t = few_layers(name);
  if (t.image > 0 || t.encoder_layers > 0) return;
  TransformerShape sparse = t;
  sparse.experts = Experts{.count = 4, .active = 2, .width = 64};
  for (const TransformerShape& one : {t, sparse}) {
    const Model model = transformer_model(one, {.sequence = 64});
    const std::vector<bool> cuts = cuts_of(model);
    for (std::size_t cut = 1; cut < model.units.size(); ++cut) {
      if (!cuts[cut]) continue;
      const Model first = stage_of(model, {{0, cut}});
      const Model last = stage_of(model, {{cut, model.units.size()}});
      for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::bf16_pure,
                                        Precision::bf16_pure_autocast}) {
        const TapeOptions options{.precision = precision, .batch = 2};
        const MemoryTape before = memory_tape(first, options), behind = memory_tape(last, options);
        const ChunkTape &sender = before.chunks[0], &receiver = behind.chunks[0];
        BOOST_TEST(bytes_of(before, sender.sent) == bytes_of(behind, receiver.received),
                   name << ", cut " << cut << ", " << to_string(precision));
        BOOST_TEST(bytes_of(before, sender.received_gradient) ==
                   bytes_of(behind, receiver.sent_gradient));
      }
    }
  }
}

// The last stage has the tokens and a copy of the embeddings' table, which its logits share.
BOOST_DATA_TEST_CASE(a_pipeline_predicts_further_tokens_on_its_last_stage,
                     data::make({false, true}), tied) {
  TransformerShape t = llama();
  t.layers = 4;
  t.predicted_tokens = 1;
  t.tied = tied;
  const Model model = transformer_model(t, kTokens);
  std::string why_not;
  const auto even = split_into_stages(model, 2, {}, why_not);
  BOOST_TEST_REQUIRE(why_not.empty(), why_not);
  BOOST_TEST((even == split_into_stages(model, 2, {2, 3}, why_not)));
  BOOST_TEST((even == split_into_stages(model, 2, {2, 2}, why_not)));
  const Model first = stage_of(model, {even[0]}), last = stage_of(model, {even[1]});
  const std::int64_t table = t.vocabulary * t.hidden;
  BOOST_TEST(first.parameters() + last.parameters() == model.parameters() + table);
  BOOST_TEST(shared_weight(model) == table);
  double gradients = 0;
  const MemoryTape tape = memory_tape(last, {.precision = Precision::bf16_pure, .batch = 2});
  for (const TapeTensor& tensor : tape.tensors)
    if (tensor.role == TensorRole::parameter_gradient) gradients += tensor.size.value() / 2;
  // The logits' and the embeddings' gradients of one table are one.
  check_close(gradients, static_cast<double>(last.parameters()));
}

// Traits and adapters of a stage are those of its own units.
BOOST_AUTO_TEST_CASE(stages_of_an_adapted_model_have_its_adapters) {
  Model model =
      adapt(transformer_model(llama(), kTokens), {.lora = Lora{.targets = {"all_linear"}}});
  for (const auto& range : std::vector<UnitRange>{{0, 2}, {2, 5}}) {
    const Model stage = stage_of(model, {range});
    const MemoryTape tape = memory_tape(stage, {.precision = Precision::bf16_pure});
    double gradients = 0;
    for (const TapeTensor& tensor : tape.tensors)
      if (tensor.role == TensorRole::parameter_gradient) gradients += tensor.size.value() / 2;
    BOOST_TEST(gradients == static_cast<double>(stage.trainable_parameters()));
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
