#include "measure/fitted_kernels.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rehearse::inline calibrate {
namespace {

const char* const kSource = "calibrate kernels";

/// As platforms/kernels/fit found it on V100 and T4 together.
constexpr double kConvolution = 1.25, kConvolutionPrologue = 159.8, kConvolutionTiles = 0.519;

/// What few shapes leave open: about the middle of the shipped GPUs'.
ProductCurve usual_product(Seconds launch) {
  return {.launch = launch,
          .share = 0.8,
          .traffic = 0.8,
          .prologue = 100,
          .small_tiles = 0.1,
          .sharpness = 4,
          .split = Seconds(2e-6),
          .source = kSource};
}
AttentionPass usual_attention(Seconds launch) {
  return {.launch = launch, .share = 0.5, .keys = 100, .traffic = 0.5, .tail = 0.5};
}

std::string name_of(Precision format) {
  if (format == Precision::fp32) return "fp32";
  return format == Precision::tf32 ? "tf32" : "tensor";
}

double peak_of(const DeviceRates& rates, Precision format) {
  if (format == Precision::fp32) return rates.fp32.value();
  if (format == Precision::tf32) return rates.tf32.value();
  return std::max(rates.bf16, rates.fp16).value();
}

Ends<double> span(std::vector<double> sizes) {
  const auto [low, high] = std::ranges::minmax(sizes);
  return {low, high};
}

std::vector<Ends<double>> product_spans(const FormatPoints& points) {
  std::vector<double> rows, columns, inner;
  for (const auto* role : {&points.forward, &points.input_gradient, &points.weight_gradient}) {
    for (const ProductPoint& point : *role) {
      rows.push_back(point.size.rows);
      columns.push_back(point.size.columns);
      inner.push_back(point.size.inner);
    }
  }
  return {span(rows), span(columns), span(inner)};
}

std::vector<Ends<double>> attention_spans(const std::vector<AttentionPoint>& points) {
  std::vector<double> tokens, heads;
  for (const AttentionPoint& point : points) {
    tokens.push_back(point.size.tokens);
    heads.push_back(point.size.batch * point.size.heads);
  }
  return {span(tokens), span(heads)};
}

std::vector<Ends<double>> memory_spans(const std::vector<MemoryPoint>& points) {
  std::vector<double> bytes;
  for (const MemoryPoint& point : points) bytes.push_back(point.moved.value());
  return {span(bytes)};
}

class Fit {
 public:
  Fit(const KernelPoints& points, const KernelsOf& of) : points_(points), of_(of) {
    curves_.gpu = of.device;
    curves_.date = of.date;
    curves_.sms = of.multiprocessors;
    curves_.sustained_source = kSource;
    curves_.convolution = kConvolution;
    curves_.convolution_prologue = kConvolutionPrologue;
    curves_.convolution_small_tiles = kConvolutionTiles;
    const DeviceRates& rates = of.rates;
    curves_.device = DeviceKernels{.cpu = of.cpu,
                                   .fp32 = rates.fp32,
                                   .tf32 = rates.tf32,
                                   .tensor = std::max(rates.bf16, rates.fp16),
                                   .memory_bandwidth = rates.memory_bandwidth,
                                   .launch = points.launch,
                                   .copies = 1,
                                   .optimizer_per_parameter = points.optimizer_per_parameter};
  }

  KernelCurves run() {
    for (const FormatPoints& format : points_.products) add_products(format);
    for (const AttentionPoints& width : points_.attention) add_attention(width);
    for (const MemoryPoints& width : points_.memory) add_memory(width);
    curves_.device->copies = share(points_.copies, "copies");
    return std::move(curves_);
  }

 private:
  void note(const std::string& kernels, std::vector<Ends<double>> sizes, KernelError error) {
    error.of = of_.device;
    curves_.measured.push_back({.kernels = kernels,
                                .on = of_.device,
                                .own_chip = true,
                                .off = error.mean,
                                .sizes = std::move(sizes)});
    curves_.errors.push_back(std::move(error));
  }

  void add_products(const FormatPoints& points) {
    const std::string format = name_of(points.format);
    const KernelDevice device = {peak_of(of_.rates, points.format),
                                 of_.rates.memory_bandwidth.value(), of_.multiprocessors};
    const ProductFit fit =
        fit_products(points.forward, device, usual_product(points_.launch), "gemm " + format);
    // The last one measured is the one that most training runs in.
    curves_.input_gradient = role_share(points.input_gradient, device, fit.curve);
    curves_.weight_gradient = role_share(points.weight_gradient, device, fit.curve);
    curves_.products.emplace(format, fit.curve);
    note("gemm " + format, product_spans(points), fit.error);
  }

  void add_attention(const AttentionPoints& points) {
    const bool wide = points.element > Bytes(2);
    const double peak = peak_of(of_.rates, wide ? Precision::fp32 : Precision::bf16);
    // The closed form counts elements of two bytes.
    const KernelDevice device = {peak,
                                 of_.rates.memory_bandwidth.value() * (Bytes(2) / points.element),
                                 of_.multiprocessors};
    const std::string kernels =
        fmt::format("attention {:.0f}{}", points.width, wide ? ", fp32" : "");
    const AttentionPass start = usual_attention(points_.launch);
    const AttentionFit forward = fit_attention(points.forward, device, start, kernels);
    const AttentionFit backward =
        fit_attention(points.backward, device, start, kernels + " backward");
    curves_.attention.push_back({.width = points.width,
                                 .wide = wide,
                                 .forward = forward.pass,
                                 .backward = backward.pass,
                                 .source = kSource});
    note(kernels, attention_spans(points.forward), forward.error);
    KernelError both = backward.error;
    both.of = of_.device;
    curves_.errors.push_back(both);
  }

  double share(const std::vector<MemoryPoint>& points, const std::string& family) {
    const BandwidthFit fit =
        fit_memory(points, points_.launch, of_.rates.memory_bandwidth.value(), family);
    curves_.errors.push_back(fit.error);
    curves_.errors.back().of = of_.device;
    return fit.share;
  }

  void add_memory(const MemoryPoints& points) {
    const bool wide = points.element > Bytes(2);
    const std::string format = wide ? ", fp32" : ", 16 bits";
    (wide ? curves_.wide_pointwise : curves_.pointwise) =
        share(points.pointwise, "pointwise" + format);
    note_memory("pointwise" + format, points.pointwise);
    (wide ? curves_.wide_rows : curves_.rows) = share(points.rows, "rows" + format);
    note_memory("rows" + format, points.rows);
    (wide ? curves_.wide_rows_backward : curves_.rows_backward) =
        share(points.rows_backward, "rows backward" + format);
  }

  void note_memory(const std::string& kernels, const std::vector<MemoryPoint>& points) {
    KernelError error = std::move(curves_.errors.back());
    curves_.errors.pop_back();
    note(kernels, memory_spans(points), std::move(error));
  }

  const KernelPoints& points_;
  const KernelsOf& of_;
  KernelCurves curves_;
};

}  // namespace

KernelCurves fitted_kernels(const KernelPoints& points, const KernelsOf& of) {
  KernelCurves curves = Fit(points, of).run();
  if (curves.pointwise == 0) {  // nothing of 16 bits was measured
    curves.pointwise = curves.wide_pointwise;
    curves.rows = curves.wide_rows;
    curves.rows_backward = curves.wide_rows_backward;
  }
  return curves;
}

}  // namespace rehearse::inline calibrate
