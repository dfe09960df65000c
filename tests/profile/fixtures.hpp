#pragma once

#include <boost/test/unit_test.hpp>
#include <vector>

#include "profile/comm_profile.hpp"

namespace rehearse {

inline constexpr double kMiB = 1024.0 * 1024.0;

inline CommCurve curve_of(CollectiveKind kind, int ranks, int nodes,
                          std::vector<CommSegment> segments) {
  CommCurve curve;
  curve.kind = kind;
  curve.ranks = ranks;
  curve.nodes = nodes;
  curve.segments = std::move(segments);
  curve.smallest = Bytes(8);
  curve.largest = Bytes(1024 * kMiB);
  curve.residual_max = 0.2;
  curve.error_p90_small = 0.08;
  curve.error_p90_large = 0.03;
  curve.held_out_max = 0.1;
  return curve;
}

// 20 us at 50 GB/s of busbw, then 100 us at 200 GB/s.
inline const std::vector<CommSegment> kTwo = {{Seconds(20e-6), BytesPerSecond(50e9)},
                                              {Seconds(100e-6), BytesPerSecond(200e9)}};

inline CommProfile one_curve(CommCurve curve) {
  return {"test", "made up", "here", {std::move(curve)}};
}

inline CommProfile node_of_8() {
  return one_curve(curve_of(CollectiveKind::all_reduce, 8, 1, kTwo));
}

inline CommProfile two_nodes() {
  return one_curve(curve_of(CollectiveKind::all_reduce, 16, 2, kTwo));
}

inline CommCost cost_of(const CommProfile& profile, CollectiveKind kind, double size, int ranks,
                        int nodes) {
  const auto cost = profile.cost(kind, Bytes(size), ranks, nodes);
  BOOST_REQUIRE(cost.has_value());
  return *cost;
}

inline void check_cost(const CommCost& cost, double latency, double transfer) {
  BOOST_TEST(cost.latency.value() == latency, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(cost.transfer.value() == transfer, boost::test_tools::tolerance(1e-9));
}

inline const auto kCloseEnough = boost::test_tools::tolerance(1e-9);

}  // namespace rehearse
