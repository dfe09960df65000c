// Published nccl-tests points that the fit has not seen: each is predicted by the curve fitted to
// the other half of its sizes, every other one. No machine was published with two rank counts, so
// nothing is held out by them.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "base/data_folder.hpp"
#include "fit/segments.hpp"
#include "profile/points_table.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(held_out_test)
namespace {

namespace data = boost::unit_test::data;

constexpr Bytes kMiB(1 << 20);

/// GPUs under NCCL; amd_epyc_gloo is a shared CPU, whose times scatter.
const std::vector<std::string> kPublished = {"a100_80_nvswitch", "a100_80_nvswitch_one_process",
                                             "a100_pcie",        "h100_2node",
                                             "p4d_a100",         "p5_h100",
                                             "v100_dgx1",        "v100_pcie_sys"};

/// All of them are all_reduce in one placement.
std::vector<PointError> unseen(const std::string& name, const FitOptions& options = {}) {
  const CommPoints points =
      read_points(data_folder() / "platforms/profiles/comm/points" / (name + ".csv"));
  std::vector<TimedSize> sizes;
  for (const CommPoint& point : points.points) {
    BOOST_REQUIRE((point.kind == CollectiveKind::all_reduce));
    BOOST_REQUIRE_EQUAL(point.ranks, points.points.front().ranks);
    sizes.push_back({point.size, point.time});
  }
  return held_out_errors(sizes, options);
}

BOOST_DATA_TEST_CASE(unseen_sizes_of_64_mib_and_more_are_within_10_percent, data::make(kPublished),
                     name) {
  BOOST_TEST(summarize_errors(unseen(name), 64 * kMiB).max <= 0.10);
}

BOOST_DATA_TEST_CASE(unseen_sizes_of_1_mib_and_more_are_within_25_percent, data::make(kPublished),
                     name) {
  BOOST_TEST(summarize_errors(unseen(name), kMiB).max <= 0.25);
}

// What the bounds are worth: one latency and one rate for all sizes miss them.
BOOST_AUTO_TEST_CASE(a_single_regime_would_miss_both_bounds) {
  double above_1_mib = 0, above_64_mib = 0;
  for (const std::string& name : kPublished) {
    const auto errors = unseen(name, {.max_segments = 1});
    above_1_mib = std::max(above_1_mib, summarize_errors(errors, kMiB).max);
    above_64_mib = std::max(above_64_mib, summarize_errors(errors, 64 * kMiB).max);
  }
  BOOST_TEST(above_1_mib > 0.25);
  BOOST_TEST(above_64_mib > 0.10);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
