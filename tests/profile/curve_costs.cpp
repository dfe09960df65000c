#include <boost/test/unit_test.hpp>
#include <cmath>

#include "base/error.hpp"
#include "base/sources.hpp"
#include "fit/segments.hpp"
#include "fixtures.hpp"
#include "profile/comm_profile.hpp"

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

BOOST_AUTO_TEST_CASE(a_measured_collective_is_not_outside) {
  const CommCost cost = cost_of(node_of_8(), CollectiveKind::all_reduce, 1e6, 8, 1);
  BOOST_TEST(cost.outside == "");
}

BOOST_AUTO_TEST_CASE(its_interval_is_what_held_out_points_stayed_within) {
  BOOST_TEST(cost_of(node_of_8(), CollectiveKind::all_reduce, kMiB - 1, 8, 1).uncertainty == 0.08);
  BOOST_TEST(cost_of(node_of_8(), CollectiveKind::all_reduce, kMiB, 8, 1).uncertainty == 0.03);
}

BOOST_AUTO_TEST_CASE(without_held_out_points_it_is_twice_the_worst_residual) {
  CommCurve curve = curve_of(CollectiveKind::all_reduce, 8, 1, kTwo);
  curve.error_p90_small = curve.error_p90_large = 0;
  BOOST_TEST(cost_of(one_curve(curve), CollectiveKind::all_reduce, 1e6, 8, 1).uncertainty == 0.4);
  curve.residual_max = 0.001;
  BOOST_TEST(cost_of(one_curve(curve), CollectiveKind::all_reduce, 1e6, 8, 1).uncertainty == 0.1);
}

BOOST_AUTO_TEST_CASE(one_rank_pays_nothing) {
  check_cost(cost_of(node_of_8(), CollectiveKind::all_reduce, 1e9, 1, 1), 0, 0);
  BOOST_TEST(CommProfile{}.cost(CollectiveKind::send_recv, Bytes(1e9), 1, 1).has_value());
}

BOOST_AUTO_TEST_CASE(more_nodes_than_ranks_is_our_own_bug) {
  BOOST_CHECK_THROW(node_of_8().cost(CollectiveKind::all_reduce, Bytes(1), 2, 3), InternalError);
}

// --- what no curve was measured for

BOOST_AUTO_TEST_CASE(half_an_all_reduce_stands_for_its_phases) {
  for (const auto kind :
       {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::broadcast}) {
    // 6.6 us of launch, then 7 steps instead of 14.
    const CommCost cost = cost_of(node_of_8(), kind, 1e6, 8, 1);
    check_cost(cost, 6.6e-6 + (20e-6 - 6.6e-6) / 2, 1e6 * bus_factor(kind, 8) / 50e9);
    BOOST_TEST(cost.outside == to_string(kind) + " derived from all_reduce");
    BOOST_TEST(cost.uncertainty == 0.35);
  }
}

BOOST_AUTO_TEST_CASE(a_collective_s_own_curve_comes_before_a_derived_one) {
  CommProfile profile = node_of_8();
  profile.curves.push_back(
      curve_of(CollectiveKind::all_gather, 8, 1, {{Seconds(9e-6), BytesPerSecond(150e9)}}));
  const CommCost cost = cost_of(profile, CollectiveKind::all_gather, 1e6, 8, 1);
  check_cost(cost, 9e-6, 0.875e6 / 150e9);
  BOOST_TEST(cost.outside == "");
}

BOOST_AUTO_TEST_CASE(send_recv_is_not_derived) {
  BOOST_TEST(!node_of_8().cost(CollectiveKind::send_recv, Bytes(1), 2, 1).has_value());
}

BOOST_AUTO_TEST_CASE(the_interval_of_a_derivation_covers_published_reduce_scatters) {
  // Eight H100s, ring: 8 GiB in 20,754 us (NVIDIA/nccl issue 1047), against the all_reduce of a
  // p5.48xlarge.
  const auto file = source_folder() / "platforms/profiles/comm/p5_h100.yaml";
  const CommProfile profile = read_comm_profile(Document::load(file)->root());
  const CommCost cost = cost_of(profile, CollectiveKind::reduce_scatter, 8192 * kMiB, 8, 1);
  const double ratio = 20754e-6 / (cost.latency + cost.transfer).value();
  BOOST_TEST_MESSAGE("published / derived: " << ratio << ", half-width " << cost.uncertainty);
  BOOST_TEST(std::abs(ratio - 1) < cost.uncertainty);
}

BOOST_AUTO_TEST_CASE(other_ranks_of_a_node_pay_for_their_steps_around_the_ring) {
  // 4 ranks: 6 steps instead of 14; the launch stays; 2 * 3/4 of the bytes at the same busbw.
  const CommCost cost = cost_of(node_of_8(), CollectiveKind::all_reduce, 1e6, 4, 1);
  check_cost(cost, 6.6e-6 + 13.4e-6 * 6 / 14, 1.5e6 / 50e9);
  BOOST_TEST(cost.outside == "4 ranks from a curve of 8");
  BOOST_TEST(cost.uncertainty == 0.16);
}

BOOST_AUTO_TEST_CASE(other_numbers_of_nodes_pay_for_the_depth_of_the_tree) {
  // 8 nodes: log2(8) = 3 levels instead of 1.
  const CommCost cost = cost_of(two_nodes(), CollectiveKind::all_reduce, 1e6, 64, 8);
  check_cost(cost, 6.6e-6 + 13.4e-6 * 3, 1e6 * 2 * 63 / 64 / 50e9);
  BOOST_TEST(cost.outside == "64 ranks on 8 nodes from a curve of 16 on 2 nodes");
}

BOOST_AUTO_TEST_CASE(a_latency_below_the_launch_does_not_shrink) {
  const auto profile = one_curve(
      curve_of(CollectiveKind::all_reduce, 8, 1, {{Seconds(5e-6), BytesPerSecond(50e9)}}));
  check_cost(cost_of(profile, CollectiveKind::all_reduce, 1e6, 2, 1), 5e-6, 1e6 / 50e9);
  check_cost(cost_of(profile, CollectiveKind::all_reduce, 1e6, 16, 1), 5e-6, 1.875e6 / 50e9);
}

BOOST_AUTO_TEST_CASE(one_node_never_stands_for_several_nor_the_other_way_round) {
  for (const CollectiveKind kind : kCollectiveKinds) {
    BOOST_TEST(!node_of_8().cost(kind, Bytes(1e6), 8, 2).has_value());
    BOOST_TEST(!two_nodes().cost(kind, Bytes(1e6), 16, 1).has_value());
  }
}

BOOST_AUTO_TEST_CASE(the_most_similar_curve_is_carried_over) {
  CommProfile profile = node_of_8();
  profile.curves.push_back(curve_of(CollectiveKind::all_reduce, 2, 1, kTwo));
  BOOST_TEST(cost_of(profile, CollectiveKind::all_reduce, 1e6, 3, 1).outside ==
             "3 ranks from a curve of 2");
  BOOST_TEST(cost_of(profile, CollectiveKind::all_reduce, 1e6, 6, 1).outside ==
             "6 ranks from a curve of 8");
}

BOOST_AUTO_TEST_CASE(every_reason_is_named) {
  const CommCost cost = cost_of(two_nodes(), CollectiveKind::all_gather, 2048 * kMiB, 32, 4);
  BOOST_TEST(
      cost.outside ==
      "all_gather derived from all_reduce; 32 ranks on 4 nodes from a curve of 16 on 2 nodes; "
      "2.00 GiB above the measured 1.00 GiB");
  BOOST_TEST(cost_of(node_of_8(), CollectiveKind::all_reduce, 4, 8, 1).outside ==
             "4 B below the measured 8 B");
}

// --- properties

BOOST_AUTO_TEST_CASE(more_bytes_more_ranks_and_more_nodes_never_cost_less) {
  const auto total = [](const CommCost& cost) { return (cost.latency + cost.transfer).value(); };
  for (const double size : {8.0, 1e5, 1e6, 1e7, 1e9}) {
    double last = 0;
    for (int ranks = 1; ranks <= 64; ranks *= 2) {
      const double one = total(cost_of(node_of_8(), CollectiveKind::all_reduce, size, ranks, 1));
      BOOST_TEST(one > last - 1e-18);
      BOOST_TEST(total(cost_of(node_of_8(), CollectiveKind::all_reduce, size * 1.5, ranks, 1)) >=
                 one);
      last = one;
    }
    last = 0;
    for (int nodes = 2; nodes <= 512; nodes *= 2) {
      const double one =
          total(cost_of(two_nodes(), CollectiveKind::all_reduce, size, 8 * nodes, nodes));
      BOOST_TEST(one > last);
      last = one;
    }
  }
}
