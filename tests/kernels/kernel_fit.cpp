// Fits of the closed forms to a handful of kernels, and the files that they are written to.
#include "kernels/kernel_fit.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace rehearse {
BOOST_AUTO_TEST_SUITE(kernel_fit_test)
namespace {

/// About an A100.
const KernelDevice kDevice{312e12, 2039e9, 108};

ProductCurve usual() {
  return {.launch = Seconds(4e-6),
          .share = 0.8,
          .traffic = 0.8,
          .prologue = 100,
          .small_tiles = 0.1,
          .sharpness = 4,
          .split = Seconds(2e-6),
          .source = "test"};
}

ProductPoint point(const ProductCurve& curve, double rows, double columns, double inner,
                   double factor = 1) {
  const ProductSize size{rows, columns, inner, 1};
  const Bytes moved(2 * (rows * inner + inner * columns + rows * columns));
  return {size, moved, factor * product_time(curve, kDevice, size, moved)};
}

/// The shapes that `rehearse calibrate kernels` times on a GPU, a few percent off.
std::vector<ProductPoint> measured(const ProductCurve& truth) {
  std::vector<ProductPoint> points;
  int i = 0;
  for (const double rows : {1024, 4096, 16384})
    for (const auto& [columns, inner] :
         {std::pair{1024, 1024}, {4096, 1024}, {4096, 4096}, {11008, 4096}, {4096, 11008}})
      points.push_back(point(truth, rows, columns, inner, 1 + 0.03 * std::sin(++i)));
  return points;
}

BOOST_AUTO_TEST_CASE(a_handful_of_products_predicts_other_shapes) {
  ProductCurve truth = usual();
  truth.share = 0.55;
  truth.traffic = 0.5;
  truth.launch = Seconds(9e-6);
  const ProductFit fit = fit_products(measured(truth), kDevice, usual(), "gemm tensor");
  BOOST_TEST(fit.error.points == 15);
  BOOST_TEST(fit.error.mean < 0.06);
  for (const auto& [rows, columns, inner] :
       {std::tuple{2048.0, 2048.0, 8192.0}, {32768.0, 5120.0, 5120.0}, {8192.0, 512.0, 2048.0}}) {
    const ProductPoint unseen = point(truth, rows, columns, inner);
    const Seconds told = product_time(fit.curve, kDevice, unseen.size, unseen.moved);
    const Seconds before = product_time(usual(), kDevice, unseen.size, unseen.moved);
    BOOST_TEST(std::abs(told / unseen.time - 1) < 0.08);
    BOOST_TEST(std::abs(before / unseen.time - 1) > 0.15);  // what the fit started from
  }
}

BOOST_AUTO_TEST_CASE(one_outlier_moves_little) {
  std::vector<ProductPoint> points = measured(usual());
  points[7].time = 3 * points[7].time;
  const ProductFit fit = fit_products(points, kDevice, usual(), "gemm tensor");
  const ProductPoint unseen = point(usual(), 8192, 8192, 8192);
  BOOST_TEST(std::abs(product_time(fit.curve, kDevice, unseen.size, unseen.moved) / unseen.time -
                      1) < 0.1);
}

BOOST_AUTO_TEST_CASE(one_point_leaves_what_it_says_nothing_of) {
  const ProductFit fit =
      fit_products({point(usual(), 4096, 4096, 4096, 2)}, kDevice, usual(), "gemm tensor");
  BOOST_TEST(std::abs(fit.curve.launch / usual().launch - 1) < 0.05);
  BOOST_TEST(fit.curve.share < 0.5);
}

BOOST_AUTO_TEST_CASE(memory_bound_kernels_have_a_share) {
  const auto kernel = [](double bytes, double share) {
    return MemoryPoint{Bytes(bytes), Seconds(5e-6 + bytes / (share * 2039e9))};
  };
  const BandwidthFit fit = fit_memory({kernel(1e8, 0.7), kernel(4e8, 0.72), kernel(1e9, 0.68)},
                                      Seconds(5e-6), 2039e9, "pointwise, fp32");
  BOOST_TEST(std::abs(fit.share - 0.7) < 0.001);
  BOOST_TEST(fit.error.mean < 0.05);
}

BOOST_AUTO_TEST_CASE(attention_is_fitted_by_direction) {
  const AttentionPass truth{
      .launch = Seconds(8e-6), .share = 0.4, .keys = 200, .traffic = 0.5, .tail = 0.5};
  std::vector<AttentionPoint> points;
  for (const double tokens : {512, 1024, 2048, 8192}) {
    const AttentionSize size{8192 / tokens, tokens, 16, 16, 128, true};
    points.push_back({size, true, attention_time(truth, kDevice, size, true)});
  }
  const AttentionPass start{
      .launch = Seconds(4e-6), .share = 0.6, .keys = 100, .traffic = 0.5, .tail = 0.5};
  const AttentionFit fit = fit_attention(points, kDevice, start, "attention 128");
  const AttentionSize unseen{2, 4096, 32, 8, 128, true};
  BOOST_TEST(std::abs(attention_time(fit.pass, kDevice, unseen, true) /
                          attention_time(truth, kDevice, unseen, true) -
                      1) < 0.1);
}

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

BOOST_AUTO_TEST_CASE(what_is_written_is_what_is_read) {
  KernelCurves curves;
  curves.gpu = "some CPU: a name";
  curves.date = "2026-11-26";
  curves.sms = 2;
  curves.sustained_source = "calibrate kernels";
  curves.products.emplace("fp32", usual());
  curves.attention.push_back({.width = 64,
                              .wide = true,
                              .forward = {Seconds(1e-6), 0.5, 1, 1, 0},
                              .backward = {Seconds(1e-6), 0.4, 1, 1, 0},
                              .source = "test"});
  curves.convolution = 1;
  curves.pointwise = curves.rows = curves.rows_backward = 0.5;
  curves.wide_pointwise = curves.wide_rows = curves.wide_rows_backward = 1.5;
  curves.device = DeviceKernels{.cpu = true,
                                .fp32 = FlopsPerSecond(50e9),
                                .tf32 = FlopsPerSecond(0),
                                .tensor = FlopsPerSecond(0),
                                .memory_bandwidth = BytesPerSecond(8e9),
                                .launch = Seconds(1e-6),
                                .copies = 0.9,
                                .optimizer_per_parameter = Seconds(1.5e-9)};
  curves.measured.push_back({"gemm fp32", curves.gpu, true, 0.04, {{64, 1024}, {2, 3}, {4, 5}}});
  curves.errors.push_back({.family = "gemm fp32",
                           .of = curves.gpu,
                           .unseen = "shape",
                           .source = "test",
                           .points = 15,
                           .mean = 0.04,
                           .median = 0.03,
                           .p90 = 0.08,
                           .bias = -0.01});
  const auto file = std::filesystem::temp_directory_path() /
                    ("rehearse_kernels_" + std::to_string(getpid()) + ".yaml");
  std::ofstream(file) << to_yaml(curves, "A test.");
  const auto read = read_kernel_curves(file);
  BOOST_TEST(to_yaml(*read, "A test.") == text_of(file));
  std::filesystem::remove(file);
  BOOST_TEST(read->device->cpu);
  BOOST_TEST(read->device->tf32.value() == 0);
  BOOST_TEST(std::abs(read->device->optimizer_per_parameter.value() - 1.5e-9) < 1e-14);
  BOOST_TEST(read->attention.at(0).wide);
  BOOST_TEST(read->find_measured("gemm fp32")->sizes.at(0).high == 1024);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
