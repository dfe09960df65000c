// Samples that are packed with documents.
#include "model/packing.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

namespace rehearse {
BOOST_AUTO_TEST_SUITE(packing_test)
namespace {

BOOST_AUTO_TEST_CASE(a_token_lies_in_a_document_longer_than_the_mean_one) {
  BOOST_TEST(document_of_a_token({.mean = 512}, 4096) == 512);
  BOOST_TEST(document_of_a_token({.mean = 8192}, 4096) == 4096);
  // Drawn: E[n^2] / E[n] of lengths cut at 4096.
  std::mt19937_64 random(1);
  const double variance = std::log1p(2548.0 * 2548 / (3234.0 * 3234));
  std::lognormal_distribution<double> lengths(std::log(3234) - variance / 2, std::sqrt(variance));
  double sum = 0, squares = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const double length = std::min(4096.0, lengths(random));
    sum += length;
    squares += length * length;
  }
  BOOST_CHECK_CLOSE(document_of_a_token({.mean = 3234, .deviation = 2548}, 4096), squares / sum,
                    0.2);
}

BOOST_AUTO_TEST_CASE(attention_does_the_pairs_of_the_documents_and_all_else_stays) {
  const Model whole = build_architecture("llama_3_8b", {.sequence = 4096});
  const Model pieces = packed(whole, 512);
  const double attention = 32 * 4.0 * 4096 * 4096 * 4096;  // layers, 4 n^2 h
  BOOST_CHECK_CLOSE(whole.forward_flops() - pieces.forward_flops(), attention * (1 - 1.0 / 8),
                    1e-9);
  BOOST_TEST(*packed_document(pieces) == 512);
  BOOST_TEST(!packed_document(whole));
  const Model alone = build_architecture("llama_3_8b", {.sequence = 512});
  BOOST_CHECK_CLOSE(pieces.forward_flops(), 8 * alone.forward_flops(), 1e-9);
}

BOOST_AUTO_TEST_CASE(a_window_shorter_than_documents_stays_as_it_is) {
  Model model = build_architecture("llama_3_8b", {.sequence = 4096});
  for (Unit& unit : model.units)
    for (Layer& layer : unit.layers)
      if (layer.kind == LayerKind::attention) layer.attention.window = 1024;
  BOOST_TEST(packed(model, 2048).forward_flops() == model.forward_flops());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
