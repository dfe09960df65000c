// What a curve's points say of a run: which of them has diverged.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <vector>

#include "replay/curve_builder.hpp"

BOOST_AUTO_TEST_SUITE(replay_curve_test)

using namespace rehearse;
namespace data = boost::unit_test::data;

namespace {

constexpr std::uint64_t kTests = 100, kEpoch = 320;
constexpr double kUntaught = 0.15;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

struct Look {
  double train_loss = 0, test_loss = 0;
  std::uint64_t correct = 0;
};

/// The curve of one gradient of 32 samples before each look.
Curve curve_of(const std::vector<Look>& looks) {
  Curve begun;
  begun.train_samples = kEpoch;
  CurveBuilder builder(begun, kUntaught);
  std::uint64_t update = 0;
  for (const Look& look : looks) {
    builder.add_gradient(look.train_loss, 32);
    ++update;
    builder.add_point(update, Seconds(static_cast<double>(update)),
                      {look.test_loss * kTests, kTests, look.correct, kTests});
  }
  return builder.finish();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_that_comes_back_from_a_large_loss_has_not_diverged) {
  const Curve curve = curve_of({{2.3, 2.3, 10}, {1e6, 1e9, 10}, {0.5, 0.4, 90}});
  BOOST_TEST(!curve.diverged);
  BOOST_TEST(curve.points.size() == 3u);
  BOOST_TEST(curve.points[1].test_loss.value() == 1e9);
  BOOST_TEST(curve.points[1].train_loss.value() == 1e6);
}

BOOST_DATA_TEST_CASE(a_loss_that_is_not_finite_diverges,
                     data::make({kNone, kInfinite}) * data::make({true, false}), loss, of_test) {
  const Look bad = of_test ? Look{0.5, loss, 90} : Look{loss, 0.5, 90};
  const Curve curve = curve_of({bad, {0.5, 0.4, 90}});
  BOOST_TEST(curve.diverged);
  BOOST_TEST(curve.points.front().test_loss.has_value() == !of_test);
  BOOST_TEST(curve.points.front().train_loss.has_value() == of_test);
}

BOOST_AUTO_TEST_CASE(a_run_that_ends_like_guessing_after_an_epoch_has_diverged) {
  // Ten batches of 32 are an epoch.
  const auto ends_with = [](std::uint64_t correct, std::size_t looks) {
    std::vector<Look> all(looks, {1, 1, 90});
    all.back() = {2.3, 2.3, correct};
    return curve_of(all).diverged;
  };
  BOOST_TEST(ends_with(15, 10));
  BOOST_TEST(!ends_with(16, 10));
  BOOST_TEST(!ends_with(10, 9));
}

BOOST_AUTO_TEST_SUITE_END()
