#include "convergence/staleness.hpp"

#include <boost/random/exponential_distribution.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <queue>
#include <vector>

#include "base/random.hpp"

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(staleness_test)
namespace {

/// An asynchronous parameter server without any cost but the workers' own time: a worker reads,
/// computes for `time(worker)`, applies, and reads again. The staleness of `updates` updates.
template <class Time>
Staleness simulated(std::size_t workers, std::uint64_t updates, Time&& time) {
  struct Arrival {
    double time;
    std::size_t worker;
    std::uint64_t read;
    bool operator<(const Arrival& other) const {
      return std::tie(time, worker) > std::tie(other.time, other.worker);
    }
  };
  std::priority_queue<Arrival> arrivals;
  for (std::size_t w = 0; w < workers; ++w) arrivals.push({time(w), w, 0});
  const std::uint64_t warmup = 20 * workers;
  std::map<std::uint32_t, std::uint64_t> histogram;
  for (std::uint64_t version = 0; version < updates + warmup; ++version) {
    const Arrival next = arrivals.top();
    arrivals.pop();
    if (version >= warmup) ++histogram[static_cast<std::uint32_t>(version - next.read)];
    arrivals.push({next.time + time(next.worker), next.worker, version + 1});
  }
  return counted_staleness(histogram);
}

}  // namespace

BOOST_AUTO_TEST_CASE(shares_have_their_mean_deviation_and_percentiles) {
  const Staleness staleness = counted_staleness({{0, 1}, {2, 2}, {4, 1}});
  BOOST_TEST(staleness.mean() == 2);
  BOOST_TEST(std::abs(staleness.deviation() - std::sqrt(2.0)) < 1e-12);
  BOOST_TEST(staleness.percentile(0.25) == 0U);
  BOOST_TEST(staleness.percentile(0.5) == 2U);
  BOOST_TEST(staleness.percentile(1) == 4U);
  BOOST_TEST(staleness.max() == 4U);
}

BOOST_AUTO_TEST_CASE(a_mean_that_is_not_whole_mixes_its_two_neighbours) {
  const Staleness staleness = nearly_constant_staleness(2.25);
  BOOST_TEST(staleness.share == (std::vector<double>{0, 0, 0.75, 0.25}));
  BOOST_TEST(nearly_constant_staleness(3).share == (std::vector<double>{0, 0, 0, 1}));
}

// Geometric with mean N - 1 = 4: q = 0.8, deviation sqrt(q) / (1 - q) = sqrt(20) = 4.47.
BOOST_AUTO_TEST_CASE(a_geometric_staleness_has_its_closed_moments) {
  const Staleness staleness = geometric_staleness(4);
  BOOST_TEST(std::abs(staleness.mean() - 4) < 1e-9);
  BOOST_TEST(std::abs(staleness.deviation() - std::sqrt(20.0)) < 1e-8);
  BOOST_TEST(std::abs(staleness.share[3] - 0.2 * 0.512) < 1e-9);
}

BOOST_AUTO_TEST_CASE(like_workers_are_n_minus_1_updates_stale) {
  const Staleness staleness = simulated(6, 6000, [](std::size_t) { return 1.0; });
  BOOST_TEST(staleness.share == constant_staleness(5).share);
}

BOOST_AUTO_TEST_CASE(a_mean_or_counts_are_read_and_nothing_else) {
  const auto share_of = [](const char* text) {
    const std::optional<Staleness> read = parse_staleness(text);
    return read ? read->share : std::vector<double>{};
  };
  const std::vector<double> mean{0, 0, 0, 0.5, 0.5}, counts{0.25, 0.75}, none;
  BOOST_TEST(share_of("3.5") == mean, boost::test_tools::per_element());
  BOOST_TEST(share_of("1:20,0:10,1:10") == counts, boost::test_tools::per_element());
  for (const char* text :
       {"", "x", "-1", "10001", "3:", ":3", "0:1,", "0:0", "0:1.5", "1.5:1", "0:1;1:1"})
    BOOST_TEST(share_of(text) == none, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(memoryless_workers_are_geometrically_stale) {
  RandomStream stream = random_stream(1, "memoryless");
  boost::random::exponential_distribution<double> time(1.0);
  const Staleness seen = simulated(5, 400000, [&](std::size_t) { return time(stream); });
  const Staleness expected = geometric_staleness(4);
  BOOST_TEST(std::abs(seen.mean() - 4) < 0.02);
  for (std::size_t k = 0; k < 20; ++k)
    BOOST_TEST(std::abs(seen.share[k] - expected.share[k]) < 0.003);
}

BOOST_AUTO_TEST_SUITE_END()
