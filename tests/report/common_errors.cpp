// Two predictions that are off together, and intervals against truths that the errors make.
#include "report/common_errors.hpp"

#include <boost/math/distributions/normal.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>

#include "base/random.hpp"
#include "report/prediction_interval.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(common_errors_test)
namespace {

const auto kExact = boost::test_tools::tolerance(1e-9);
constexpr double kEnd = 1.6448536269514722;
/// So many that chance moves a share by a third of a point.
constexpr std::size_t kTruths = 20'000;

/// A source moves the logarithm of a step so far at its upper end; the lower one is as far.
using Halves = std::map<std::string, double>;

const Halves kSources = {
    {"compute", 0.08}, {"launches", 0.03}, {"communication", 0.06}, {"fleet", 0.02}};

Headline step_of(double seconds) { return {Seconds(seconds), 0, {}}; }

std::vector<ErrorSource> sources_of(const Halves& halves) {
  std::vector<ErrorSource> sources;
  for (const auto& [name, half] : halves)
    sources.push_back({name, step_of(std::exp(-half)), step_of(1), step_of(std::exp(half))});
  return sources;
}

/// Draws of a normal distribution, in a stream of the source's own.
std::vector<double> draws(const std::string& source) {
  RandomStream stream = random_stream(1, source);
  std::vector<double> all;
  while (all.size() < kTruths) {
    const double share = uniform01(stream);
    if (share > 0) all.push_back(boost::math::quantile(boost::math::normal(), share));
  }
  return all;
}

/// Logarithms of true steps over the best estimate.
std::vector<double> truths(const Halves& halves) {
  std::vector<double> all(kTruths, 0);
  for (const auto& [name, half] : halves) {
    const std::vector<double> own = draws(name);
    for (std::size_t i = 0; i < kTruths; ++i) all[i] += half / kEnd * own[i];
  }
  return all;
}

double coverage(const Halves& told, const Halves& real) {
  const Ends<double> interval = log_bounds(
      1, sources_of(told), [](const Headline& h) { return h.step_time.value(); }, 0);
  std::size_t inside = 0;
  for (const double truth : truths(real))
    inside += interval.low <= std::exp(truth) && std::exp(truth) <= interval.high;
  return static_cast<double>(inside) / kTruths;
}

BOOST_AUTO_TEST_CASE(of_truths_that_the_error_model_draws_ninety_percent_are_inside) {
  BOOST_TEST(std::abs(coverage(kSources, kSources) - 0.9) <= 0.01);
}

BOOST_AUTO_TEST_CASE(an_interval_without_one_of_the_sources_holds_too_few) {
  for (const char* left_out : {"compute", "communication"}) {
    Halves fewer = kSources;
    fewer.erase(left_out);
    BOOST_TEST(coverage(fewer, kSources) < 0.89, left_out);
  }
}

/// Layouts of one cluster: compute is common, and what they exchange differs.
const Halves kFirst = {{"compute", 0.10}, {"communication", 0.02}};
const Halves kSecond = {{"compute", 0.09}, {"communication", 0.06}};

/// The share of truths in which the second takes longer, of the ratio that is predicted.
double share_of_longer(double ratio) {
  std::size_t longer = 0;
  const std::vector<double> first = truths(kFirst), second = truths(kSecond);
  for (std::size_t i = 0; i < kTruths; ++i) longer += std::log(ratio) + second[i] - first[i] > 0;
  return static_cast<double>(longer) / kTruths;
}

BOOST_AUTO_TEST_CASE(what_both_are_off_by_together_cancels) {
  const Ends<double> off = together(shifts_of(sources_of(kFirst)), shifts_of(sources_of(kSecond)));
  BOOST_TEST(off.high == std::hypot(0.01, 0.04), kExact);
  BOOST_TEST(off.low == -off.high, kExact);
}

BOOST_AUTO_TEST_CASE(stated_chances_are_those_of_the_truths) {
  const Ends<double> off = together(shifts_of(sources_of(kFirst)), shifts_of(sources_of(kSecond)));
  for (const double ratio : {0.97, 0.99, 1.0, 1.01, 1.03, 1.05}) {
    const double chance =
        chance_above_one(ratio, {ratio * std::exp(off.low), ratio * std::exp(off.high)});
    BOOST_TEST(std::abs(chance - share_of_longer(ratio)) <= 0.02, ratio);
  }
}

BOOST_AUTO_TEST_CASE(single_intervals_overlap_where_the_comparison_is_sure) {
  const double ratio = 1.06;
  const Ends<double> off = together(shifts_of(sources_of(kFirst)), shifts_of(sources_of(kSecond)));
  const double upper_of_first = std::hypot(0.10, 0.02), lower_of_second = std::hypot(0.09, 0.06);
  BOOST_TEST(std::log(ratio) - lower_of_second < upper_of_first);
  BOOST_TEST(chance_above_one(ratio, {ratio * std::exp(off.low), ratio * std::exp(off.high)}) >
             kSureChance);
}

BOOST_AUTO_TEST_CASE(the_ends_of_an_interval_have_five_and_ninety_five_percent) {
  BOOST_TEST(chance_above_one(1.2, {1.0, 1.5}) == 0.95, kExact);
  BOOST_TEST(chance_above_one(0.8, {0.7, 1.0}) == 0.05, kExact);
  BOOST_TEST(chance_above_one(1.0, {0.7, 1.1}) == 0.5, kExact);
}

BOOST_AUTO_TEST_CASE(what_is_in_no_doubt_is_sure) {
  BOOST_TEST(chance_above_one(1.1, {1.1, 1.1}) == 1.0);
  BOOST_TEST(chance_above_one(0.9, {0.9, 0.9}) == 0.0);
  BOOST_TEST(chance_above_one(1.0, {1.0, 1.0}) == 0.5);
}

BOOST_AUTO_TEST_CASE(chances_have_words) {
  BOOST_TEST(chance_words(0.931) == "93 %");
  BOOST_TEST(chance_words(0.995) == "over 99 %");
  BOOST_TEST(chance_words(0.005) == "under 1 %");
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
