#include "predict/wire.hpp"

#include <boost/test/unit_test.hpp>

using namespace rehearse;

// One process receives what another sends, member by member.
BOOST_AUTO_TEST_SUITE(wire_test)

BOOST_AUTO_TEST_CASE(a_headline_arrives_whole) {
  const Headline one = received<Headline>(sent(Headline{.step_time = Seconds(0.25),
                                                        .samples_per_s = 0.1,
                                                        .staleness = 2.5,
                                                        .worker_step_time = Seconds(0.5)}));
  BOOST_TEST(one.step_time.value() == 0.25);
  BOOST_TEST(one.samples_per_s == 0.1);
  BOOST_TEST(one.staleness.value() == 2.5);
  BOOST_TEST(one.worker_step_time.value().value() == 0.5);
  const Headline bare =
      received<Headline>(sent(Headline{.step_time = Seconds(1), .staleness = {}}));
  BOOST_TEST(!bare.staleness);
  BOOST_TEST(!bare.worker_step_time);
}

BOOST_AUTO_TEST_CASE(a_change_that_fits_arrives_whole) {
  const FittingChange one =
      received<FittingChange>(sent(FittingChange{.change = "ZeRO-1",
                                                 .set = "--set 'strategy={zero: {}}'",
                                                 .changes_training = true,
                                                 .at_risk = true,
                                                 .allocated_peak = Bytes(1.5),
                                                 .reserved_peak = Bytes(2e9),
                                                 .used = Bytes(3e9),
                                                 .step_time = Seconds(0.5),
                                                 .samples_per_s = 77,
                                                 .price = 0.25}));
  BOOST_TEST(one.change == "ZeRO-1");
  BOOST_TEST(one.set == "--set 'strategy={zero: {}}'");
  BOOST_TEST(one.changes_training);
  BOOST_TEST(one.at_risk);
  BOOST_TEST(one.allocated_peak.value() == 1.5);
  BOOST_TEST(one.reserved_peak.value().value() == 2e9);
  BOOST_TEST(one.used.value() == 3e9);
  BOOST_TEST(one.step_time.value() == 0.5);
  BOOST_TEST(one.samples_per_s == 77);
  BOOST_TEST(one.price == 0.25);
}

BOOST_AUTO_TEST_CASE(paced_updates_arrive_whole) {
  const PacedUpdates one =
      received<PacedUpdates>(sent(PacedUpdates{.pace = {.samples_per_s = 12.5,
                                                        .samples_per_update = 8,
                                                        .applied = {Seconds(0.5), Seconds(0.75)}},
                                               .staleness = {0, 3},
                                               .steps = 4,
                                               .whole_run = true,
                                               .left_out = {{"warm-up", "warm-up: 2"}}}));
  BOOST_TEST(one.pace.samples_per_s == 12.5);
  BOOST_TEST(one.pace.samples_per_update == 8);
  BOOST_TEST(one.pace.applied.at(1).value() == 0.75);
  BOOST_TEST(one.staleness == (std::vector<std::uint32_t>{0, 3}), boost::test_tools::per_element());
  BOOST_TEST(one.steps == 4u);
  BOOST_TEST(one.whole_run);
}

BOOST_AUTO_TEST_SUITE_END()
