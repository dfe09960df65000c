#include "base/stretch.hpp"

#include <boost/test/unit_test.hpp>

namespace rehearse {
BOOST_AUTO_TEST_SUITE(stretch_test)
namespace {

std::vector<std::uint64_t> framed(std::size_t times, const std::vector<std::uint64_t>& repeat) {
  std::vector<std::uint64_t> all = {100, 101};
  for (std::size_t i = 0; i < times; ++i) all.insert(all.end(), repeat.begin(), repeat.end());
  all.push_back(102);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_comes_again_is_found_and_its_frame_is_not) {
  const auto stretch = longest_stretch(framed(9, {1, 2, 1, 3}), 4);
  BOOST_REQUIRE(stretch.has_value());
  BOOST_TEST(stretch->begin == 2U);
  BOOST_TEST(stretch->period == 4U);
  BOOST_TEST(stretch->times == 9U);
  BOOST_TEST(stretch->end() == 38U);
  BOOST_TEST(stretch->has(37));
  BOOST_TEST(!stretch->has(38));
  BOOST_TEST(stretch->repeat_of(13) == 2U);
}

BOOST_AUTO_TEST_CASE(fewer_repeats_than_asked_for_are_none) {
  BOOST_TEST(longest_stretch(framed(5, {1, 2, 3}), 5).has_value());
  BOOST_TEST(!longest_stretch(framed(5, {1, 2, 3}), 6).has_value());
  BOOST_TEST(!longest_stretch({}, 2).has_value());
}

// A kind stands 20 times in a repeat, and another one twice: by that one it is found.
BOOST_AUTO_TEST_CASE(a_repeat_is_found_by_its_rarest_kinds) {
  std::vector<std::uint64_t> repeat(20, 1);
  repeat[4] = repeat[11] = 2;
  const auto stretch = longest_stretch(framed(12, repeat), 4);
  BOOST_REQUIRE(stretch.has_value());
  BOOST_TEST(stretch->period == 20U);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
