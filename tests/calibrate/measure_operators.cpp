// FLOPs and bytes that operators are counted for, by hand. measure_units.cpp has whole networks.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "measure/operator_counter.hpp"
#include "models/attention.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(measure_operators_test)
namespace {

namespace data = boost::unit_test::data;
namespace nn = torch::nn;

/// What a forward pass did, and the backward pass of its output's sum.
struct Counted {
  OperatorTotals forward, backward;
};
template <class Forward>
Counted count(Forward forward) {
  OperatorCounter counter;
  const torch::Tensor output = forward();
  const OperatorTotals there = counter.take();
  output.backward(torch::ones_like(output));
  return {there, counter.take()};
}

torch::Tensor leaf(at::IntArrayRef sizes) { return torch::rand(sizes).requires_grad_(); }

BOOST_AUTO_TEST_CASE(a_linear_layer_multiplies_each_row_by_its_weight) {
  nn::Linear layer(5, 7);
  const torch::Tensor input = leaf({3, 5});
  const Counted counted = count([&] { return layer->forward(input); });
  BOOST_TEST(counted.forward.flops.value() == 2 * 3 * 5 * 7);
  BOOST_TEST(counted.backward.flops.value() == 2 * (2 * 3 * 5 * 7));
  BOOST_TEST(counted.forward.moved.value() == 4 * (3 * 5 + 5 * 7 + 7 + 3 * 7));
  // Over all positions of a sequence, too; nothing is asked for the input's gradient there.
  const torch::Tensor tokens = torch::rand({2, 3, 5});
  const Counted sequence = count([&] { return layer->forward(tokens); });
  BOOST_TEST(sequence.forward.flops.value() == 2 * (2 * 3 * 5 * 7));
  BOOST_TEST(sequence.backward.flops.value() == 2 * (2 * 3 * 5 * 7));
}

struct ConvolutionCase {
  std::int64_t in, out, groups;
  bool input_gradient, transposed;
};
std::ostream& operator<<(std::ostream& out, const ConvolutionCase& c) {
  return out << c.in << " to " << c.out << " in " << c.groups;
}

BOOST_DATA_TEST_CASE(a_convolution_multiplies_each_output_by_one_kernel,
                     data::make(std::vector<ConvolutionCase>{{4, 8, 1, true, false},
                                                             {4, 8, 1, false, false},
                                                             {4, 8, 2, true, false},
                                                             {6, 6, 6, true, false},
                                                             {4, 8, 1, true, true}}),
                     c) {
  // 8 x 8 positions: 4 x 4 out at stride 2; transposed, every input meets a kernel.
  const torch::Tensor weight =
      c.transposed ? leaf({c.in, c.out / c.groups, 3, 3}) : leaf({c.out, c.in / c.groups, 3, 3});
  const torch::Tensor input = torch::rand({2, c.in, 8, 8}).requires_grad_(c.input_gradient);
  const torch::Tensor bias = leaf({c.out});
  const std::vector<std::int64_t> two = {2, 2}, one = {1, 1};
  const Counted counted = count([&] {
    return torch::convolution(input, weight, bias, two, one, one, c.transposed,
                              c.transposed ? one : std::vector<std::int64_t>{0, 0}, c.groups);
  });
  const double products =
      static_cast<double>(c.in / c.groups * c.out * 9) * 2 * (c.transposed ? 64 : 16);
  BOOST_TEST(counted.forward.flops.value() == 2 * products);
  BOOST_TEST(counted.backward.flops.value() == (c.input_gradient ? 2 : 1) * 2 * products);
  if (c.transposed) return;
  const double moved =
      static_cast<double>(2 * c.in * 64 + c.out * (c.in / c.groups * 9 + 1) + 2 * c.out * 16);
  BOOST_TEST(counted.forward.moved.value() == 4 * moved);
}

BOOST_DATA_TEST_CASE(attention_is_two_products_over_all_pairs, data::make({false, true}), flash) {
  const torch::Tensor queries = leaf({2, 3, 8, 4}), keys = leaf({2, 3, 8, 4}),
                      values = leaf({2, 3, 8, 4});
  const Counted counted = count([&] {
    return attention(queries, keys, values, {.causal = true, .dropout = 0, .flash = flash});
  });
  const double product = 2 * 2 * 3 * 8 * 8 * 4;
  BOOST_TEST(counted.forward.flops.value() == 2 * product);
  BOOST_TEST(counted.backward.flops.value() == 4 * product);
}

BOOST_AUTO_TEST_CASE(views_and_allocations_move_nothing) {
  const torch::Tensor input = torch::rand({4, 6});
  OperatorCounter counter;
  input.view({6, 4}).t().slice(0, 1, 3).detach();
  input.contiguous().to(torch::kFloat32).reshape({24}).flatten();
  torch::dropout(input, 0.5, false);
  torch::empty({1000});
  BOOST_TEST(counter.take().moved.value() == 0);
  input.t().contiguous();  // this one copies
  BOOST_TEST(counter.take().moved.value() == 4 * 2 * 24);
}

BOOST_AUTO_TEST_CASE(elementwise_operators_read_and_write) {
  torch::Tensor input = torch::rand({10, 10});
  const torch::Tensor row = torch::rand({10});
  OperatorCounter counter;
  input + row;
  BOOST_TEST(counter.take().moved.value() == 4 * (100 + 10 + 100));
  input + row.expand({10, 10});  // a broadcast reads its elements once
  BOOST_TEST(counter.take().moved.value() == 4 * (100 + 10 + 100));
  input.relu_();
  BOOST_TEST(counter.take().moved.value() == 4 * (100 + 100));
  input.copy_(row);
  BOOST_TEST(counter.take().moved.value() == 4 * (10 + 100));
  input.zero_();
  BOOST_TEST(counter.take().moved.value() == 4 * 100);
  torch::softmax(input, 1);
  BOOST_TEST(counter.take().moved.value() == 4 * (100 + 100));
}

BOOST_AUTO_TEST_CASE(nothing_is_counted_after_the_counter) {
  {
    const OperatorCounter counter;
    torch::mm(torch::rand({2, 2}), torch::rand({2, 2}));
  }
  torch::mm(torch::rand({2, 2}), torch::rand({2, 2}));
  OperatorCounter counter;
  BOOST_TEST(counter.take().flops.value() == 0);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
