#include "base/random.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>

namespace rehearse {
BOOST_AUTO_TEST_SUITE(random_test)
namespace {

constexpr int kDraws = 100000;

// Published reference values of SplitMix64 for state 1234567 (rosettacode.org, "Pseudo-random
// numbers/Splitmix64").
BOOST_AUTO_TEST_CASE(the_generator_is_splitmix64) {
  RandomStream stream(1234567);
  BOOST_TEST(stream() == 6457827717110365317ULL);
  BOOST_TEST(stream() == 3203168211198807973ULL);
  BOOST_TEST(stream() == 9817491932198370423ULL);
}

// A change of these numbers changes every prediction with jitter.
BOOST_AUTO_TEST_CASE(a_named_stream_keeps_its_numbers_for_ever) {
  auto stream = random_stream(1, "jitter", 2, 3);
  BOOST_TEST(stream() == 0xa3d3688e5515483cULL);
  BOOST_TEST(stream() == 0xffd0721e50c458bdULL);
  BOOST_TEST(stream() == 0x26a1eae571f41a16ULL);
}

BOOST_AUTO_TEST_CASE(same_seed_name_and_indices_give_the_same_numbers) {
  auto first = random_stream(7, "jitter", 3, 4);
  auto second = random_stream(7, "jitter", 3, 4);
  for (int i = 0; i < 100; ++i) BOOST_TEST(first() == second());
}

BOOST_AUTO_TEST_CASE(seed_name_and_each_index_select_a_stream_of_their_own) {
  std::set<std::uint64_t> first_numbers;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (const char* name : {"", "jitter", "jittes", "straggler"}) {
      for (std::uint64_t first = 0; first < 10; ++first) {
        for (std::uint64_t second = 0; second < 10; ++second) {
          first_numbers.insert(random_stream(seed, name, first, second)());
        }
      }
    }
  }
  BOOST_TEST(first_numbers.size() == 10u * 4u * 10u * 10u);
}

BOOST_AUTO_TEST_CASE(uniform01_stays_in_range_with_the_mean_and_variance_of_a_uniform_number) {
  auto stream = random_stream(1, "uniform");
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double number = uniform01(stream);
    BOOST_REQUIRE(number >= 0);
    BOOST_REQUIRE(number < 1);
    sum += number;
    squares += (number - 0.5) * (number - 0.5);
  }
  // Five standard errors: sqrt(1/12/n) of the mean, sqrt(1/180/n) of the variance.
  BOOST_TEST(std::abs(sum / kDraws - 0.5) < 5 * std::sqrt(1.0 / 12 / kDraws));
  BOOST_TEST(std::abs(squares / kDraws - 1.0 / 12) < 5 * std::sqrt(1.0 / 180 / kDraws));
}

BOOST_AUTO_TEST_CASE(streams_of_neighbouring_ranks_are_uncorrelated) {
  auto left = random_stream(1, "jitter", 0);
  auto right = random_stream(1, "jitter", 1);
  double product = 0;
  for (int i = 0; i < kDraws; ++i) product += (uniform01(left) - 0.5) * (uniform01(right) - 0.5);
  // The product of two independent uniform numbers about 0 has a standard deviation of 1/12.
  BOOST_TEST(std::abs(product / kDraws) < 5.0 / 12 / std::sqrt(kDraws));
}

BOOST_AUTO_TEST_CASE(drawing_more_from_one_stream_does_not_shift_another) {
  auto other = random_stream(1, "other");
  auto expected = random_stream(1, "jitter");
  for (int i = 0; i < 10; ++i) other();
  auto actual = random_stream(1, "jitter");
  for (int i = 0; i < 10; ++i) {
    other();
    BOOST_TEST(actual() == expected());
  }
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
