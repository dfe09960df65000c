// What the roofline takes kernels to reach, GPU by GPU.
#include "cost/kernel_shares.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "cost/peak.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(kernel_shares_test)
namespace {

BOOST_AUTO_TEST_CASE(a_gpu_has_shares_of_its_own) {
  const ReachedShares h100 = reached_shares(known_gpu("H100-SXM"), {});
  BOOST_TEST(h100.matrix == 0.742);
  BOOST_TEST(h100.matrix_memory == 0.777);
  BOOST_TEST(h100.launch.value() == 3.1e-6);
  BOOST_TEST(h100.attention < 0.6);  // PyTorch's FlashAttention-2 is not made for it
  const ReachedShares a100 = reached_shares(known_gpu("A100-SXM-80"), {});
  BOOST_TEST(a100.matrix == 0.714);
  BOOST_TEST(a100.matrix_memory == 0.62);
  BOOST_TEST(a100.launch.value() == 5.4e-6);
  BOOST_TEST(analytic_error(known_gpu("H100-SXM"), {}) == kCurvesError);
}

BOOST_AUTO_TEST_CASE(a_relative_lends_its_shares_and_widens_the_interval) {
  const Gpu a10g = known_gpu("A10G");
  BOOST_TEST(reached_shares(a10g, {}).matrix == reached_shares(known_gpu("A40"), {}).matrix);
  BOOST_TEST(analytic_error(a10g, {}) == std::hypot(kAnalyticError, kRelativeError));
  BOOST_TEST(shares_line(a10g).starts_with("of A40, carried over to A10G ("));
}

BOOST_AUTO_TEST_CASE(a_gpu_of_which_nothing_is_known_takes_general_shares) {
  Gpu gpu;
  gpu.name = "mine";
  BOOST_TEST(reached_shares(gpu, {}).matrix == 0.8);
  BOOST_TEST(analytic_error(gpu, {}) == std::hypot(kAnalyticError, kUnknownKernelsError));
  BOOST_TEST(shares_line(gpu) == "of no GPU in particular, mine has none of its own");
}

BOOST_AUTO_TEST_CASE(what_a_scenario_states_wins_everywhere) {
  const AnalyticEfficiency asked{.matrix = 0.5, .memory = 0.4, .kernel_launch = Seconds(1e-6)};
  const ReachedShares shares = reached_shares(known_gpu("T4"), asked);
  BOOST_TEST(shares.matrix == 0.5);
  BOOST_TEST(shares.matrix_fp32 == 0.5);
  BOOST_TEST(shares.matrix_memory == 0.4);
  BOOST_TEST(shares.memory == 0.4);
  BOOST_TEST(shares.launch.value() == 1e-6);
  BOOST_TEST(shares.attention == 0.55);
}

BOOST_AUTO_TEST_CASE(every_gpu_has_shares_with_a_source) {
  for (const std::string& name : gpu_names()) {
    const Gpu gpu = known_gpu(name);
    BOOST_TEST(gpu.kernels.has_value() == (name != "generic"), name);
    if (!gpu.kernels) continue;
    if (name.starts_with("MI"))  // AMD's: shares of a relative, none of its curves
      BOOST_TEST((gpu.kernels->relative == "H100-SXM" && gpu.curves == nullptr), name);
    BOOST_TEST(!gpu.kernels->source.empty(), name);
    BOOST_TEST((gpu.kernels->launch.value() >= 1e-6 && gpu.kernels->launch.value() < 1e-5), name);
  }
}

// The device has 80 SMs: 80 x 128 cores x 2 FLOPs x 1.71 GHz, as its tf32 and fp16 rates say.
BOOST_AUTO_TEST_CASE(an_a10g_has_eighty_multiprocessors) {
  BOOST_TEST(known_gpu("A10G").fp32.value() == 35e12);
}

BOOST_AUTO_TEST_CASE(eight_bits_that_nobody_measured_are_less_certain) {
  const auto error = [](const char* gpu, Precision precision) {
    return analytic_error(known_gpu(gpu), {}, precision);
  };
  BOOST_TEST(error("H100-SXM", Precision::fp8) == kCurvesError);
  BOOST_TEST(error("B200", Precision::fp8) == std::hypot(kCurvesError, kRelativeError));
  BOOST_TEST(error("B200", Precision::bf16_master) == kCurvesError);
}

BOOST_AUTO_TEST_CASE(narrow_products_on_amds_chips_are_less_certain) {
  const auto share = [](const char* gpu, double columns, double inner) {
    Model model;
    model.units.resize(1);
    model.units[0].operators = {{.kind = OperatorKind::matmul,
                                 .forward_flops = 3,
                                 .product = {.rows = 1, .columns = columns, .inner = inner}},
                                {.kind = OperatorKind::matmul,
                                 .forward_flops = 1,
                                 .product = {.rows = 1, .columns = 8192, .inner = 8192}}};
    return narrow_share(model, known_gpu(gpu));
  };
  BOOST_TEST(share("MI300X", 6400, 1600) == 0.75);
  BOOST_TEST(share("MI300X", 4096, 4096) == 0);
  BOOST_TEST(share("H100-SXM", 6400, 1600) == 0);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
