// Gloo's transport: its file, and its fit to made-up measurements.
#include "profile/transport_fit.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <stdexcept>

#include "base/error.hpp"
#include "profile/comm_profile.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(transport_test)
namespace {

constexpr BytesPerSecond kRate(25e6);

Transport known() {
  return {.segments = 2,
          .largest_segment = Bytes(1024.0 * 1024.0),
          .at_a_time = 2,
          .efficiency = 0.95,
          .wake = Seconds(1e-3),
          .per_message = Seconds(2e-4),
          .host_rate = BytesPerSecond(2e9),
          .slice = Seconds(4e-3),
          .measured_at = kRate,
          .efficiency_error = 0.01,
          .host_error = 0.2};
}

/// What an all_reduce of `size` over `ranks` takes under the known transport.
TransportPoint point_of(Bytes size, int ranks) {
  const Transport transport = known();
  const Bytes chunk = size / static_cast<double>(ranks);
  const double segments = transport.segments_of(chunk);
  const double messages = 2.0 * (ranks - 1) * segments;
  return {size, uncontended(transport, size, ranks, kRate),
          messages * transport.host_work(chunk / segments)};
}

std::vector<TransportPoint> points_of(int ranks) {
  std::vector<TransportPoint> points;
  for (double size = 1024; size <= 16 * 1024 * 1024; size *= 4)
    points.push_back(point_of(Bytes(size), ranks));
  return points;
}

CommProfile profile_with(const Transport& transport) {
  CommCurve curve{.kind = CollectiveKind::all_reduce,
                  .ranks = 2,
                  .nodes = 2,
                  .segments = {{Seconds(1e-3), BytesPerSecond(1e9)}},
                  .smallest = Bytes(1024),
                  .largest = Bytes(1e9)};
  return {.name = "test",
          .hardware = "made up",
          .source = "here",
          .curves = {curve},
          .transport = transport};
}

BOOST_AUTO_TEST_CASE(the_fit_finds_what_the_points_were_made_of) {
  for (const int ranks : {2, 4}) {
    const Transport fitted = fit_transport(points_of(ranks), ranks, kRate, kGlooRules);
    BOOST_CHECK_CLOSE(fitted.per_message.value(), 2e-4, 1e-6);
    BOOST_CHECK_CLOSE(fitted.host_rate.value(), 2e9, 1e-6);
    // A large all_reduce also has its start, which the fit takes for the link's.
    BOOST_CHECK_CLOSE(fitted.efficiency, 0.95, 1.5);
    BOOST_CHECK_CLOSE(fitted.wake.value(), 1e-3, 5);
    BOOST_TEST(fitted.efficiency_error < 0.02);
    BOOST_TEST(fitted.host_error < 0.1);
    BOOST_TEST(fitted.at_a_time == 2);
  }
}

BOOST_AUTO_TEST_CASE(errors_are_what_most_points_are_off_by) {
  std::vector<TransportPoint> points = points_of(2);
  for (TransportPoint& point : points)
    if (point.size < Bytes(1e5)) point.time *= point.size < Bytes(2e3) ? 1.5 : 0.8;
  const Transport fitted = fit_transport(points, 2, kRate, kGlooRules);
  BOOST_TEST(fitted.host_error > 0.15);
  BOOST_TEST(fitted.efficiency_error < 0.02);
  BOOST_CHECK_CLOSE(fitted.shifted(1).wake / fitted.wake, std::exp(fitted.host_error), 1e-9);
}

BOOST_AUTO_TEST_CASE(a_chunk_has_two_segments_and_more_above_the_largest) {
  BOOST_TEST(known().segments_of(Bytes(1000)) == 2);
  BOOST_TEST(known().segments_of(Bytes(2 * 1024 * 1024)) == 2);
  BOOST_TEST(known().segments_of(Bytes(2 * 1024 * 1024 + 1)) == 3);
}

BOOST_AUTO_TEST_CASE(points_that_say_nothing_are_refused) {
  BOOST_CHECK_THROW(fit_transport(points_of(2), 1, kRate, kGlooRules), std::invalid_argument);
  BOOST_CHECK_THROW(fit_transport({point_of(Bytes(4096), 2)}, 2, kRate, kGlooRules),
                    std::invalid_argument);
  BOOST_CHECK_THROW(fit_transport({point_of(Bytes(4e6), 2)}, 2, kRate, kGlooRules),
                    std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(a_profile_with_a_transport_reads_as_it_was_written) {
  const CommProfile written = profile_with(known());
  const auto document = Document::parse(to_yaml(written), "comm.yaml");
  BOOST_TEST((read_comm_profile(document->root()).transport == written.transport));
  std::string wrong = to_yaml(written);
  wrong.replace(wrong.find("efficiency: 0.9500"), 18, "efficiency: 1.2000");
  BOOST_CHECK_THROW(read_comm_profile(Document::parse(wrong, "comm.yaml")->root()), InputError);
}

BOOST_AUTO_TEST_CASE(only_one_rank_on_each_of_several_nodes_travels) {
  const CommProfile profile = profile_with(known());
  BOOST_TEST(profile.travels(4, 4));
  BOOST_TEST(!profile.travels(8, 4));
  BOOST_TEST(!profile.travels(1, 1));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
