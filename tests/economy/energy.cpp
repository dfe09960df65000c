#include "economy/energy.hpp"

#include <boost/test/unit_test.hpp>

using namespace rehearse;

BOOST_AUTO_TEST_SUITE(energy_test)
namespace {

const auto kExact = boost::test_tools::tolerance(1e-12);

}  // namespace

BOOST_AUTO_TEST_CASE(power_is_the_shares_of_time_times_the_shares_of_the_tdp) {
  const EnergyOptions options{.compute = 0.9, .communication = 0.5, .idle = 0.1};
  const std::vector<GpuLoad> loads = {
      {.gpus = 4, .tdp = Watts(400), .compute = 0.6, .communication = 0.3},
      {.gpus = 2, .tdp = Watts(300)}};
  // 0.6 x 0.9 + 0.3 x 0.5 + 0.1 x 0.1 = 0.7
  BOOST_TEST(gpu_power(options, loads).value() == 4 * 400 * 0.7 + 2 * 300 * 0.1, kExact);
  BOOST_TEST(idle_gpu_power(options, loads).value() == 4 * 400 * 0.1 + 2 * 300 * 0.1, kExact);
}

BOOST_AUTO_TEST_CASE(a_kilowatt_for_an_hour_is_a_kilowatt_hour) {
  BOOST_TEST(kilowatt_hours(Watts(1000), Seconds(3600)) == 1, kExact);
}

BOOST_AUTO_TEST_CASE(llama_65b_took_449_mwh_and_173_t_of_co2) {
  // Touvron et al., "LLaMA", arXiv:2302.13971, table 15: 1,022,362 hours of A100-80 at their 400 W,
  // PUE 1.1, 0.385 kg per kWh; hosts are not counted there.
  const EnergyOptions options{.idle = 1, .pue = 1.1};
  const Watts gpu = gpu_power(options, {{.gpus = 1, .tdp = Watts(400)}});
  const double kwh = options.pue * kilowatt_hours(gpu, Seconds(1'022'362.0 * 3600));
  BOOST_TEST(kwh == 449e3, boost::test_tools::tolerance(0.005));
  BOOST_TEST(kwh * 0.385 == 173e3, boost::test_tools::tolerance(0.005));
}

BOOST_AUTO_TEST_SUITE_END()
