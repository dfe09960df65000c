// A tape is played as a step is: forward, then backward from the last unit.
#include "model/memory_tape.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

namespace rehearse {
namespace {

BOOST_AUTO_TEST_SUITE(memory_tape_test)

BOOST_DATA_TEST_CASE(nothing_but_parameter_gradients_is_left,
                     boost::unit_test::data::make(architecture_names()), name) {
  const Model model = build_architecture(name, {});
  const MemoryTape tape = memory_tape(model, {.precision = Precision::bf16, .batch = 2});
  std::vector<int> taken(tape.tensors.size()), returned(tape.tensors.size());
  const auto play = [&](const std::vector<TapeEvent>& events) {
    for (const TapeEvent& event : events) {
      ++(event.takes ? taken : returned).at(event.tensor);
      BOOST_TEST(taken[event.tensor] >= returned[event.tensor]);
    }
  };
  for (const UnitTape& unit : tape.units) play(unit.forward);
  for (std::size_t u = tape.units.size(); u-- > 0;) play(tape.units[u].backward);
  for (std::size_t t = 0; t < tape.tensors.size(); ++t) {
    BOOST_TEST(taken[t] == 1);
    BOOST_TEST(returned[t] == (tape.tensors[t].role == TensorRole::parameter_gradient ? 0 : 1));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace rehearse
