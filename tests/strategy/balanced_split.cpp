// Splits that balance stages: against all splits, and in closed forms.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <numeric>
#include <random>

#include "strategy/jobs.hpp"
#include "strategy/layout/balanced_split.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(balanced_split_test)
namespace {

namespace data = boost::unit_test::data;
using Counts = std::vector<std::int64_t>;
using Balance = Layout::Balance;

Layout balanced(int stages, Balance balance, int micro_batches = 4) {
  Layout layout;
  layout.mesh.pipeline = stages;
  layout.micro_batches = micro_batches;
  layout.balance = balance;
  return layout;
}

/// The least that the slowest of `stages` parts of what is left can take.
double least(const std::vector<double>& times, std::size_t first, std::size_t stages) {
  const auto begin = times.begin() + static_cast<std::ptrdiff_t>(first);
  if (stages == 1) return std::accumulate(begin, times.end(), 0.0);
  double best = 1e9, own = 0;
  for (std::size_t end = first + 1; end + stages - 1 <= times.size(); ++end) {
    own += times[end - 1];
    best = std::min(best, std::max(own, least(times, end, stages - 1)));
  }
  return best;
}

BOOST_DATA_TEST_CASE(no_split_has_a_faster_slowest_stage, data::xrange(20), seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<ToyUnit> units;
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    const double forward = 1e-3 * (1 + static_cast<double>(random() % 9));
    units.push_back({kMiB, forward, 2 * forward});
    times.push_back(3 * forward);
  }
  const int stages = 2 + seed % 4;
  const Toy made = toy(units, 1e-3);
  const Cluster cluster = star_cluster(stages);
  const Counts found = balanced_split(balanced(stages, Balance::time), job_of(made, cluster));
  BOOST_REQUIRE(found.size() == static_cast<std::size_t>(stages));
  double slowest = 0;
  auto at = times.begin();
  for (const std::int64_t count : found) {
    slowest = std::max(slowest, std::accumulate(at, at + count, 0.0));
    at += count;
  }
  BOOST_CHECK_CLOSE(slowest, least(times, 0, static_cast<std::size_t>(stages)), kPercent);
}

BOOST_AUTO_TEST_CASE(a_stage_on_gpus_twice_as_fast_has_twice_as_many_layers) {
  const Toy made = equal_units(12, {kMiB, 1e-3, 2e-3}, 1e-3);
  Cluster cluster = star_cluster(1);
  cluster.groups.push_back(cluster.groups.front());
  cluster.groups.back().node.speed = 2;
  BOOST_TEST(balanced_split(balanced(2, Balance::time), job_of(made, cluster)) == (Counts{4, 8}));
  std::swap(cluster.groups[0], cluster.groups[1]);
  BOOST_TEST(balanced_split(balanced(2, Balance::time), job_of(made, cluster)) == (Counts{8, 4}));
}

BOOST_AUTO_TEST_CASE(memory_follows_the_micro_batches_in_flight) {
  // 1F1B: two of them on the first of two stages, one on the second.
  const Toy made = equal_units(12, {0, 1e-3, 2e-3, 10 * kMiB}, 1e-3);
  const Cluster cluster = star_cluster(2);
  BOOST_TEST(balanced_split(balanced(2, Balance::memory), job_of(made, cluster)) == (Counts{4, 8}));
  BOOST_TEST(balanced_split(balanced(2, Balance::memory, 1), job_of(made, cluster)) ==
             (Counts{6, 6}));
}

BOOST_AUTO_TEST_CASE(recomputed_layers_take_a_forward_more) {
  const Toy made = equal_units(9, {kMiB, 1e-3, 2e-3}, 1e-3);
  const Cluster cluster = star_cluster(2);
  Job job = job_of(made, cluster);
  job.checkpointed = {true, true, true, false, false, false, false, false, false};
  // 4 + 4 + 4 + 3 and 5 x 3 ms.
  BOOST_TEST(balanced_split(balanced(2, Balance::time), job) == (Counts{4, 5}));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
