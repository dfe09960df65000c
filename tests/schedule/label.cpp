// What an operation is called.
#include <boost/test/unit_test.hpp>

#include "schedule/schedule.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(label_test)

BOOST_AUTO_TEST_CASE(a_label_is_verb_pass_unit_size_and_remark_of_what_is_there) {
  const auto label = [](const Op& op) { return op.label(); };
  BOOST_TEST(label({.of = "pseudo-gradient"}) == "pseudo-gradient");
  BOOST_TEST(label({.verb = Verb::optimizer}) == "optimizer");
  BOOST_TEST(label({.verb = Verb::backward_input, .of = "layer3"}) == "backward (input) layer3");
  BOOST_TEST(label({.verb = Verb::launch, .pass = Verb::forward, .of = "layer3"}) ==
             "launch forward layer3");
  const Op reduced{
      .verb = Verb::all_reduce, .of = "bucket 2", .moves = Bytes(25 << 20), .remark = ", updated"};
  BOOST_TEST(reduced.label() == "all_reduce bucket 2 (25.0 MiB), updated");
  BOOST_TEST(reduced.title() == "all_reduce bucket 2");
}

BOOST_AUTO_TEST_CASE(a_collective_s_verb_is_called_as_it_is) {
  for (const std::string& name : collective_names())
    BOOST_TEST(to_string(verb_of(parse_collective_kind(name))) == name);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
