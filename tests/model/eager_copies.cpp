// What eager modules copy and convert beside their products, in closed forms.
#include <boost/test/unit_test.hpp>

#include "model/model.hpp"
#include "shares.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(eager_copies_test)
namespace {

// torch.nn.MultiheadAttention: forward the input is copied, the packed product added to and copied;
// backward the same copies, three gradients in zeros of the whole, and their sums.
BOOST_AUTO_TEST_CASE(torchvisions_vit_copies_around_its_packed_product) {
  const Model model = build_architecture("vit_l_16", {});
  const double tokens = 197, width = 1024, one = tokens * width, three = 3 * one;
  for (std::size_t unit = 1; unit + 1 < model.units.size(); ++unit) {
    double written = 0, written_back = 0, moved_back = 0, sums = 0;
    for (const Operator& op : model.units[unit].operators) {
      written += op.eager_forward.written;
      written_back += op.eager_backward.written;
      moved_back += op.eager_backward.plain;
      sums += op.bare_backward;
    }
    check_close(written, one + 2 * three);
    check_close(written_back, one + three);
    check_close(moved_back, 3 * (three + 2 * one) + 2 * 3 * three);
    BOOST_TEST(sums == 2);
  }
}

// The stream between blocks is fp32 under autocast: nothing is converted for a norm, and of what a
// branch adds in 16 bits the gradient is narrowed once.
BOOST_AUTO_TEST_CASE(its_stream_is_as_wide_as_its_positions) {
  const Model model = build_architecture("vit_l_16", {});
  const double stream = 197.0 * 1024;
  double forward = 0, backward = 0;
  for (const Operator& op : model.units[1].operators)
    if (op.kind == OperatorKind::cast) {
      forward += op.forward_elements;
      backward += op.backward_elements;
    }
  check_close(forward, 2 * stream);   // of both norms' outputs
  check_close(backward, 4 * stream);  // and of both branches
}

// 0.5 x (1 + tanh(c (x + 0.044715 x^3))): x becomes fp32, and three gradients 16 bits. What it
// gives is narrowed for the next product.
BOOST_AUTO_TEST_CASE(gelu_new_converts_once_and_back_three_times) {
  TransformerShape shape = gpt();
  for (const bool made_new : {false, true}) {
    shape.activation = made_new ? ActivationKind::gelu_new : ActivationKind::gelu;
    const Model model = transformer_model(shape, {.sequence = 64});
    const double elements = 64.0 * 1024;
    std::size_t forward = 0, backward = 0;
    for (const Operator& op : model.units[1].operators) {
      if (op.kind != OperatorKind::cast) continue;
      forward += op.forward_elements == elements ? 1 : 0;
      backward += op.backward_elements == elements ? 1 : 0;
    }
    BOOST_TEST(forward == (made_new ? 2u : 0u));
    BOOST_TEST(backward == (made_new ? 4u : 0u));
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
