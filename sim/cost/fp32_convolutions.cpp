// Convolutions in fp32 on GPUs whose tensor cores have no such format: cuDNN's on Volta and Turing.
// Nothing is fitted to them: they are the GPU's own fp32 products and pointwise kernels.
// DeepBench's 73 shapes on a V100 (platforms/kernels/data/convolution_deepbench.csv) say which way
// is taken.
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "cost/kernel_model.hpp"
#include "kernels/kernel_curves.hpp"

namespace rehearse::inline cost {
namespace {

constexpr double kElement = 4, kSide = 3, kWindow = kSide * kSide;
/// Channels of a block in Winograd's gradient of the weight, whose products are not split: fewer
/// leave it in part empty (64 channels reach 8 TFLOP/s where 128 reach 24).
constexpr double kBlock = 128;

double in_blocks(double channels) { return kBlock * std::ceil(channels / kBlock); }

}  // namespace

void KernelModel::take_fp32_convolutions() {
  if (product_ == nullptr || format_ != "fp32") return;
  convolution_ = winograd_ = *product_;
  convolution_device_ = device_;
  convolves_in_fp32_ = true;
  of_convolutions_ = curves_->find_measured("convolution, fp32");
}

/// GeForce cards since Ampere, whose tensor cores are halved: either unit has the same peak.
bool KernelModel::multiplies_fp32_as_fast(const Gpu& gpu, Precision precision) const {
  const bool narrower = precision != Precision::fp32 && precision != Precision::tf32;
  return !narrower && gpu.tf32 > FlopsPerSecond(0) && gpu.fp32 >= gpu.tf32;
}

std::optional<Seconds> KernelModel::winograd(const Image& image, Role role) const {
  if (winograd_.share <= 0 || image.window != kWindow || image.stride != 1 || image.groups > 1)
    return std::nullopt;
  return std::min(winograd(image, role, 2), winograd(image, role, 4));
}

/// Minimal filtering F(n x n, 3 x 3): (n + 2)^2 products over tiles in the place of 9 n^2 (Lavin,
/// Gray, "Fast algorithms for convolutional neural networks", CVPR 2016). Both sides of them are
/// written and read by transforms, which are kernels of their own.
Seconds KernelModel::winograd(const Image& image, Role role, double outputs) const {
  const double tile = (outputs + kSide - 1) * (outputs + kSide - 1);
  const double side = std::ceil(std::sqrt(image.positions));
  const double tiles = image.samples * std::pow(std::ceil(side / outputs), 2);
  const double activations = image.samples * image.positions * (image.in + image.out);
  const double transformed = tile * (tiles * (image.in + image.out) + image.in * image.out);
  ProductSize product{tiles, image.out, image.in, tile};
  if (role == Role::input_gradient) product = {tiles, image.in, image.out, tile};
  if (role == Role::weight_gradient)
    product = {in_blocks(image.out), in_blocks(image.in), tiles, tile};
  const Seconds transforms(kElement * (activations + kWindow * image.in * image.out + transformed) /
                           (curves_->wide_pointwise * convolution_device_.bandwidth));
  return transforms +
         product_time(winograd_, convolution_device_, product, Bytes(kElement * transformed));
}

/// The product that it amounts to. Of a weight's gradient each sample may have blocks of its own,
/// and the input's gradient of a 1 x 1 with a stride computes the zeros between its positions, too.
Seconds KernelModel::fp32_convolution(const Image& image, Role role, Bytes moved) const {
  check(convolves_in_fp32_, "a convolution in fp32 without a curve");
  const auto [samples, positions, in, out, window, stride, groups] = image;
  const double rows = samples * positions;
  std::vector<ProductSize> plain = {{rows, out, in * window, groups}};
  if (role == Role::input_gradient)
    plain = {{rows * stride, in, out * window / (window > 1 ? stride : 1), groups}};
  if (role == Role::weight_gradient) plain = {{out, in * window, rows, groups}};
  if (role == Role::weight_gradient && window > 1)
    plain.push_back({out, in * window, positions, groups * samples});
  Seconds least(std::numeric_limits<double>::infinity());
  for (const ProductSize& size : plain)
    least = std::min(least, product_time(convolution_, convolution_device_, size, moved));
  return least;
}

}  // namespace rehearse::inline cost
