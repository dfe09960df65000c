#include "convergence/batch_law.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "base/error.hpp"
#include "convergence/workloads.hpp"

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(batch_law)
namespace {

const auto kExact = boost::test_tools::tolerance(1e-9);

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct LeftOut {
  double off;  ///< ln(law / reference points)
  bool held;   ///< by the 90 % interval
};

/// Every batch of a workload, by the law of its others; those that these refuse are left away.
std::vector<LeftOut> left_out(const Workload& workload) {
  std::vector<LeftOut> all;
  for (std::size_t i = 0; i < workload.points.size(); ++i) {
    std::vector<ReferencePoint> others = workload.points;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const BatchLaw law(others, known_workloads().prior);
    const ReferencePoint& point = workload.points[i];
    if (!law.holds_at(point.batch)) continue;
    const Estimate<double> amount = law.mean_amount(point.batch);
    all.push_back({std::log(amount.value / point.amount),
                   amount.low <= point.amount && point.amount <= amount.high});
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(two_batches_are_met_exactly) {
  const BatchLaw law({{.batch = 100, .amount = 1100}, {.batch = 300, .amount = 1300}});
  BOOST_TEST(law.fewest() == 1000, kExact);
  BOOST_TEST(law.critical_batch() == 1000, kExact);
  BOOST_TEST(law.mean_amount(500).value == 1500, kExact);
  BOOST_TEST(law.range().low == 50);
  BOOST_TEST(law.range().high == 600);
}

BOOST_AUTO_TEST_CASE(larger_batches_never_take_fewer_samples) {
  const BatchLaw law({{.batch = 100, .amount = 1000}, {.batch = 300, .amount = 900}});
  BOOST_TEST(std::isinf(law.critical_batch()));
  BOOST_TEST(law.mean_amount(200).value > 900);
  BOOST_TEST(law.mean_amount(200).value < 1000);
}

BOOST_AUTO_TEST_CASE(one_run_is_less_sure_than_the_mean_of_many) {
  const std::vector<ReferencePoint> points = {{100, 1100, 10, 0.05}, {300, 1300, 10, 0.05}};
  const BatchLaw law(points);
  BOOST_TEST(law.amount(200).high > law.mean_amount(200).high);
  BOOST_TEST(law.mean_amount(600).high / law.mean_amount(600).value >
             law.mean_amount(200).high / law.mean_amount(200).value);
}

BOOST_AUTO_TEST_CASE(one_batch_is_refused) {
  BOOST_CHECK_EXCEPTION(BatchLaw({{.batch = 100, .amount = 1}}), InputError, [](const auto& wrong) {
    return std::string(wrong.what()) == "two batches are the fewest that say what a batch costs";
  });
}

// The bounds: a median of 6 % at most, and 90 % intervals that hold 85 to 95 %.
BOOST_AUTO_TEST_CASE(batches_left_out_of_the_reference_points) {
  std::vector<double> medians, all;
  double held = 0, count = 0;
  for (const Workload& workload : known_workloads().workloads) {
    if (workload.points.size() < 3) continue;
    std::vector<double> own;
    for (const LeftOut& one : left_out(workload)) {
      own.push_back(std::abs(one.off));
      held += one.held ? 1 : 0;
      ++count;
    }
    all.insert(all.end(), own.begin(), own.end());
    medians.push_back(median(own));
    BOOST_TEST_MESSAGE(fmt::format("{:<18} {:2} batches, median {:4.1f} %", workload.name,
                                   own.size(), 100 * medians.back()));
  }
  BOOST_TEST_MESSAGE(
      fmt::format("median of workloads {:.1f} %, of batches {:.1f} %; held {:.0f} of "
                  "{:.0f} ({:.0f} %)",
                  100 * median(medians), 100 * median(all), held, count, 100 * held / count));
  BOOST_TEST(median(medians) <= 0.06);
  BOOST_TEST(median(all) <= 0.06);
  BOOST_TEST(held / count >= 0.85);
  BOOST_TEST(held / count <= 0.95);
}

BOOST_AUTO_TEST_CASE(sgd_at_large_batches_needs_more_or_never_gets_there) {
  const FixedLength& goyal = known_workloads().lengths.front();
  for (const double batch : {256.0, 1024.0, 4096.0})
    BOOST_TEST((goyal.reaches(batch, 0.759) == std::optional(true)));
  for (const double batch : {16384.0, 32768.0, 65536.0})
    BOOST_TEST((goyal.reaches(batch, 0.759) == std::optional(false)));
  BOOST_TEST((goyal.reaches(8192, 0.759) == std::nullopt));
  BOOST_TEST((goyal.reaches(16384, 0.75) == std::optional(true)));
  BOOST_TEST((goyal.reaches(1'000'000, 0.5) == std::nullopt));
}

BOOST_AUTO_TEST_SUITE_END()
