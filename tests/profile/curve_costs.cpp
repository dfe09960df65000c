#include <boost/test/unit_test.hpp>

#include "base/error.hpp"
#include "fixtures.hpp"
#include "profile/comm_profile.hpp"

BOOST_AUTO_TEST_SUITE(curve_costs_test)

using namespace rehearse;

// --- a curve at its own ranks

BOOST_AUTO_TEST_CASE(all_reduce_costs_its_latency_and_twice_7_eighths_of_its_bytes) {
  // 1 MB: 20 us + 1.75 MB / 50 GB/s = 55 us, against 100 us + 8.75 us.
  check_cost(cost_of(node_of_8(), CollectiveKind::all_reduce, 1e6, 8, 1), 20e-6, 1.75e6 / 50e9);
}

BOOST_AUTO_TEST_CASE(the_cheapest_regime_is_taken_at_each_size) {
  // 10 MB: 20 us + 350 us, against 100 us + 87.5 us.
  check_cost(cost_of(node_of_8(), CollectiveKind::all_reduce, 1e7, 8, 1), 100e-6, 1.75e7 / 200e9);
}

BOOST_AUTO_TEST_CASE(its_interval_is_what_held_out_points_stayed_within) {
  const CommCurve curve = node_of_8().curves.front();
  BOOST_TEST(curve.uncertainty(Bytes(kMiB - 1)) == 0.08);
  BOOST_TEST(curve.uncertainty(Bytes(kMiB)) == 0.03);
  BOOST_TEST(curve.uncertainty(Bytes(4)) == 0.16);
  BOOST_TEST(curve.uncertainty(Bytes(2048 * kMiB)) == 0.06);
}

BOOST_AUTO_TEST_CASE(without_held_out_points_it_is_twice_the_worst_residual) {
  CommCurve curve = curve_of(CollectiveKind::all_reduce, 8, 1, kTwo);
  curve.error_p90_small = curve.error_p90_large = 0;
  BOOST_TEST(curve.uncertainty(Bytes(1e6)) == 0.4);
  curve.residual_max = 0.001;
  BOOST_TEST(curve.uncertainty(Bytes(1e6)) == 0.1);
}

BOOST_AUTO_TEST_CASE(one_rank_pays_nothing) {
  check_cost(cost_of(node_of_8(), CollectiveKind::all_reduce, 1e9, 1, 1), 0, 0);
  BOOST_TEST(CommProfile{}.cost(CollectiveKind::send_recv, Bytes(1e9), 1, 1).has_value());
}

BOOST_AUTO_TEST_CASE(more_nodes_than_ranks_is_our_own_bug) {
  BOOST_CHECK_THROW(node_of_8().cost(CollectiveKind::all_reduce, Bytes(1), 2, 3), InternalError);
}

BOOST_AUTO_TEST_CASE(a_curve_speaks_for_its_own_ranks_nodes_and_collective_alone) {
  const CommProfile node = node_of_8(), nodes = two_nodes();
  BOOST_TEST(!node.cost(CollectiveKind::all_reduce, Bytes(1e6), 4, 1).has_value());
  BOOST_TEST(!node.cost(CollectiveKind::all_gather, Bytes(1e6), 8, 1).has_value());
  BOOST_TEST(!nodes.cost(CollectiveKind::all_reduce, Bytes(1e6), 32, 4).has_value());
}

// --- which curve

BOOST_AUTO_TEST_CASE(the_most_similar_curve_is_nearest_and_nodes_never_stand_for_one) {
  CommProfile profile = node_of_8();
  profile.curves.push_back(curve_of(CollectiveKind::all_reduce, 2, 1, kTwo));
  BOOST_TEST(profile.nearest(CollectiveKind::all_reduce, 3, 1)->ranks == 2);
  BOOST_TEST(profile.nearest(CollectiveKind::all_reduce, 6, 1)->ranks == 8);
  BOOST_TEST(!profile.nearest(CollectiveKind::all_reduce, 16, 2));
  BOOST_TEST(!profile.nearest(CollectiveKind::send_recv, 2, 1));
  BOOST_TEST(!two_nodes().nearest(CollectiveKind::all_reduce, 8, 1));
}

BOOST_AUTO_TEST_CASE(more_bytes_never_cost_less) {
  const CommCurve curve = two_nodes().curves.front();
  double last = 0;
  for (double size = 1; size < 1e10; size *= 3) {
    const double time = curve.cost(Bytes(size)).total().value();
    BOOST_TEST(time > last);
    last = time;
  }
}

BOOST_AUTO_TEST_SUITE_END()
