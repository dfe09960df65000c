// Kernels of image networks whose time is not that of their bytes, by the rates of
// platforms/kernels.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "cluster/cluster.hpp"
#include "cost/kernel_model.hpp"
#include "cost/roofline.hpp"
#include "model/adaptation.hpp"

namespace rehearse {
BOOST_AUTO_TEST_SUITE(image_kernels_test)
namespace {

namespace data = boost::unit_test::data;

Model model_of(const Operator& op) {
  Model model;
  Unit unit;
  unit.name = "u";
  unit.operators = {op};
  model.units = {unit};
  return model;
}

// The rates of platforms/kernels/H100-SXM.yaml, of one of its 132 multiprocessors.
BOOST_AUTO_TEST_CASE(batch_norm_in_eager_mode_takes_as_long_as_its_kernels_load) {
  Operator op{.kind = OperatorKind::normalization,
              .channels_last = true,
              .normed = 1e9,
              .forward_elements = 3e9,
              .backward_elements = 5e9};
  const Gpu gpu = known_gpu("H100-SXM");
  const auto forward = [&](Precision precision, const Model& model) {
    return step_costs(model, gpu, precision, 1, {}, {}).units.at(0).forward.value();
  };
  const double rate = gpu.curves->norm_bf16_last.all[0] * gpu.curves->sms;
  const double launch = Roofline(gpu, Precision::bf16, {}).launch().value();
  BOOST_CHECK_CLOSE(forward(Precision::bf16, model_of(op)), launch + 1e9 / rate, 1e-7);
  BOOST_TEST(forward(Precision::fp16, model_of(op)) < 0.5 * 1e9 / rate);  // cuDNN's, of no rate
  BOOST_TEST(forward(Precision::bf16, compiled(model_of(op))) < 0.5 * 1e9 / rate);
}

// Of contiguous tensors a block norms a channel, so that few channels leave others idle.
BOOST_DATA_TEST_CASE(few_channels_are_normed_by_few_blocks, data::make({64.0, 512.0}), channels) {
  const Operator op{.kind = OperatorKind::normalization,
                    .normed = 1e9,
                    .channels = channels,
                    .forward_elements = 3e9,
                    .backward_elements = 5e9};
  const Gpu gpu = known_gpu("H200-SXM");
  const Roofline roofline(gpu, Precision::bf16, {});
  const NormRates& rates = gpu.curves->norm_bf16;
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    const std::size_t way = direction == Direction::backward ? 1 : 0;
    const double seconds =
        1e9 / (rates.all[way] * gpu.curves->sms) + 1e9 / (rates.channel[way] * channels);
    BOOST_CHECK_CLOSE(roofline.time(op, 1, direction).value(), roofline.launch().value() + seconds,
                      1e-7);
  }
}

// Its windows' elements are read one by one, in any precision; compiled, bytes bound it.
BOOST_AUTO_TEST_CASE(max_pooling_takes_as_long_as_its_windows_have_elements) {
  Operator op{.kind = OperatorKind::pooling,
              .pooled = 9e8,
              .forward_elements = 8e8,
              .backward_elements = 8e8};
  const Gpu gpu = known_gpu("H100-SXM");
  const auto seconds = [&](Precision precision, Direction direction) {
    const Roofline roofline(gpu, precision, {});
    return (roofline.time(op, 1, direction) - roofline.launch()).value();
  };
  const KernelCurves& curves = *gpu.curves;
  for (const Precision precision : {Precision::fp16, Precision::tf32}) {
    BOOST_CHECK_CLOSE(seconds(precision, Direction::backward),
                      9e8 / (curves.max_pool[1] * curves.sms), 1e-7);
  }
  op.channels_last = true;
  BOOST_CHECK_CLOSE(seconds(Precision::bf16, Direction::backward),
                    9e8 / (curves.max_pool_last[1] * curves.sms), 1e-7);
  const Model model = compiled(model_of(op));
  BOOST_TEST(model.units.at(0).operators.at(0).pooled == 0);
}

// cuDNN multiplies planes of contiguous images as they are where each begins at 16 bytes.
BOOST_AUTO_TEST_CASE(planes_that_begin_at_16_bytes_are_not_converted) {
  Operator op{.kind = OperatorKind::layout, .forward_elements = 4e8, .backward_elements = 8e8};
  const Gpu gpu = known_gpu("H200-SXM");
  const auto seconds = [&](Precision precision, double plane) {
    op.plane = plane;
    const Roofline roofline(gpu, precision, {});
    const Seconds time = roofline.time(op, 1, Direction::forward);
    return time > Seconds(0) ? (time - roofline.launch()).value() : 0;
  };
  const double converted = 2e8 / (gpu.curves->conversion * gpu.curves->sms);
  BOOST_CHECK_CLOSE(seconds(Precision::bf16, 0), converted, 1e-7);
  BOOST_CHECK_CLOSE(seconds(Precision::bf16, 14 * 14), converted, 1e-7);
  BOOST_TEST(seconds(Precision::bf16, 28 * 28) == 0);
  BOOST_TEST(seconds(Precision::tf32, 14 * 14) == 0);  // of four bytes each
  BOOST_TEST(seconds(Precision::tf32, 7 * 7) >= converted);
}

// Hopper's instructions multiply tf32 along rows alone.
BOOST_AUTO_TEST_CASE(tf32_has_gradients_of_its_own) {
  const Gpu gpu = known_gpu("H100-SXM");
  const KernelCurves& curves = *gpu.curves;
  using Role = KernelModel::Role;
  const auto ratio = [&](const KernelModel& kernels, Role role) {
    const ProductSize size{8192, 8192, 8192};
    const double launch = curves.products.at("tf32").launch.value();
    return (kernels.product(size, Role::forward).value() - launch) /
           (kernels.product(size, role).value() - launch);
  };
  const KernelModel tf32(gpu, Precision::tf32);
  BOOST_CHECK_CLOSE(ratio(tf32, Role::weight_gradient), curves.tf32_weight_gradient, 1);
  BOOST_CHECK_CLOSE(ratio(tf32, Role::input_gradient), curves.tf32_input_gradient, 1);
  const KernelModel bf16(gpu, Precision::bf16);
  const auto convolved = [](const KernelModel& kernels, Role role) {
    return kernels.convolution({1e6, 512, 4608}, role, Bytes(0)).value();
  };
  BOOST_TEST(convolved(tf32, Role::weight_gradient) > 1.4 * convolved(tf32, Role::forward));
  BOOST_TEST(convolved(bf16, Role::weight_gradient) == convolved(bf16, Role::forward));
}

struct Measured {
  const char* name;
  KernelModel::Image image;
  KernelModel::Role role;
  double us;
  friend std::ostream& operator<<(std::ostream& out, const Measured& one) {
    return out << one.name;
  }
};
using Role = KernelModel::Role;
// Of platforms/kernels/data/convolution_deepbench.csv: V100, fp32, 16 samples. As plain products
// those of 3 x 3 would take 1.5 to 2.8 times as long, and the strided gradient a third.
const std::vector<Measured> kDeepBench = {
    {"128 to 256 channels at 56 x 56", {16, 3136, 128, 256, 9}, Role::forward, 900},
    {"256 to 512 at 28 x 28", {16, 784, 256, 512, 9}, Role::forward, 801},
    {"its input's gradient", {16, 784, 256, 512, 9}, Role::input_gradient, 859},
    {"its weight's gradient", {16, 784, 256, 512, 9}, Role::weight_gradient, 766},
    {"512 to 512 at 14 x 14", {16, 196, 512, 512, 9}, Role::forward, 506},
    {"64 to 128 at 112 x 112", {16, 12544, 64, 128, 9}, Role::forward, 1246},
    {"the weight's gradient of 64 channels", {16, 12544, 64, 128, 9}, Role::weight_gradient, 1928},
    {"a strided input's gradient", {16, 784, 256, 128, 1, 4}, Role::input_gradient, 252}};

// Nothing is fitted to them: the V100's own fp32 products, and pointwise kernels for transforms.
BOOST_DATA_TEST_CASE(convolutions_in_fp32_take_what_deepbench_measured, data::make(kDeepBench)) {
  const KernelModel kernels(known_gpu("V100-SXM2-16"), Precision::fp32);
  const KernelModel::Image& image = sample.image;
  const double moved = 4 * image.samples * image.positions * (image.in * image.stride + image.out);
  const Seconds plain = kernels.fp32_convolution(image, sample.role, Bytes(moved));
  const double us =
      std::min(plain, kernels.winograd(image, sample.role).value_or(plain)).value() * 1e6;
  BOOST_TEST(std::abs(us / sample.us - 1) < 0.25);
}

// Tensor cores run the plain product, in tf32 too.
BOOST_AUTO_TEST_CASE(only_gpus_without_tf32_convolve_in_fp32) {
  BOOST_TEST(KernelModel(known_gpu("V100-SXM2-16"), Precision::fp32).convolves_in_fp32());
  BOOST_TEST(KernelModel(known_gpu("T4"), Precision::fp32).convolves_in_fp32());
  BOOST_TEST(!KernelModel(known_gpu("V100-SXM2-16"), Precision::fp16).convolves_in_fp32());
  BOOST_TEST(!KernelModel(known_gpu("A100-SXM-80"), Precision::fp32).convolves_in_fp32());
  // GeForce's tensor cores multiply tf32 no faster than its other units fp32.
  const KernelModel::Image image{32, 3136, 128, 256, 9};
  const auto filters = [&](const char* gpu, Precision precision) {
    return KernelModel(known_gpu(gpu), precision).winograd(image, Role::forward).has_value();
  };
  BOOST_TEST(filters("RTX-3090", Precision::fp32));
  BOOST_TEST(!filters("RTX-3090", Precision::fp16));
  BOOST_TEST(!filters("A100-SXM-80", Precision::fp32));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rehearse
