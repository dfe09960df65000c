// What PyTorch's record_stream keeps of asynchronous collectives beside tensor ranks' products.
#include <boost/test/unit_test.hpp>
#include <map>

#include "memory/memory.hpp"
#include "strategy/layouts.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(recorded_streams_test)
namespace {

using Action = TensorEvent::Action;

constexpr double kHidden = 256, kTokens = 64, kElement = 4;

TransformerShape dense(int layers) {
  TransformerShape t = mixture(layers);
  t.experts.reset();
  return t;
}

Layout sequence_ranks(int tensor, bool avoid) {
  Layout layout;
  layout.mesh.tensor = tensor;
  layout.sequence_parallel = true;
  layout.avoid_record_streams = avoid;
  layout.micro_batches = 2;
  return layout;
}

Program program_of(int layers, const Layout& layout) {
  const Cluster cluster = nodes_of(1);
  const Toy toy = share_on(dense(layers), layout, cluster);
  return build_schedule(Strategy{TorchDdp{}, layout}, job_of(toy, cluster)).programs.front();
}

std::size_t count(const Program& program, Action action) {
  std::size_t sum = 0;
  for (const Op& op : program.ops)
    for (const TensorEvent& event : op.memory) sum += event.action == action ? 1 : 0;
  return sum;
}

BOOST_AUTO_TEST_CASE(gathered_inputs_and_whole_gradients_are_recorded) {
  // Of the fused or single products of q, k, v and of the feed-forward, the gathered input and the
  // input's whole gradient, in each of two micro-batches; of a block as many as of another.
  const auto of = [](int layers) {
    return count(program_of(layers, sequence_ranks(2, false)), Action::give_in_use);
  };
  const std::size_t each = of(2) - of(1);
  BOOST_TEST(each > 0);
  BOOST_TEST(of(3) - of(2) == each);
  BOOST_TEST(each % 4 == 0);
}

BOOST_AUTO_TEST_CASE(what_is_kept_until_it_is_waited_for_is_given_back_at_once) {
  const Program program = program_of(2, sequence_ranks(2, true));
  BOOST_TEST(count(program, Action::give_in_use) == 0);
  BOOST_TEST(count(program, Action::finish) == 0);
}

BOOST_AUTO_TEST_CASE(a_host_without_launch_times_is_a_whole_backward_ahead) {
  // Nobody asks for memory that the GPU still reads: of each block's products stay an input and a
  // gradient of all tokens, until the loss is looked at.
  const MemoryDevice gpu{.caching = true};
  const auto reserved = [&](int layers, bool avoid) {
    return forecast_memory(program_of(layers, sequence_ranks(4, avoid)), gpu)
        .reserved_peak->value();
  };
  const double recorded =
      static_cast<double>(count(program_of(8, sequence_ranks(4, false)), Action::give_in_use)) / 2;
  const double more = reserved(8, false) - reserved(8, true);
  BOOST_TEST(more > 0);
  BOOST_TEST(more <= recorded * kTokens * kHidden * kElement + 40.0 * 1024 * 1024);
}

BOOST_AUTO_TEST_CASE(each_is_seen_to_be_over_before_it_is_taken_again) {
  std::map<std::size_t, Action> last;
  for (const Op& op : program_of(3, sequence_ranks(2, false)).ops)
    for (const TensorEvent& event : op.memory) {
      const auto [at, is_new] = last.try_emplace(event.tensor.index(), event.action);
      if (event.action == Action::take && !is_new) BOOST_TEST((at->second != Action::give_in_use));
      at->second = event.action;
    }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
