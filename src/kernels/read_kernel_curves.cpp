#include <fmt/format.h>

#include "config/document.hpp"
#include "kernels/kernel_curves.hpp"

namespace rehearse::inline kernels {
namespace {

std::string source_of(Map& map) { return map.require("source").as_string(); }

ProductCurve read_product(const Value& value) {
  Map map = value.as_map();
  ProductCurve curve{.launch = map.require("launch").as_seconds(),
                     .share = map.require("share").as_positive_number(),
                     .traffic = map.require("traffic").as_positive_number(),
                     .prologue = map.require("prologue").as_non_negative_number(),
                     .small_tiles = map.require("small_tiles").as_non_negative_number(),
                     .sharpness = map.require("sharpness").as_positive_number(),
                     .split = map.require("split").as_seconds(),
                     .source = source_of(map)};
  map.finish();
  return curve;
}

AttentionPass read_pass(const Value& value) {
  Map map = value.as_map();
  AttentionPass pass{.launch = map.require("launch").as_seconds(),
                     .share = map.require("share").as_positive_number(),
                     .keys = map.require("keys").as_non_negative_number(),
                     .traffic = map.require("traffic").as_positive_number(),
                     .tail = map.require("tail").as_non_negative_number()};
  map.finish();
  return pass;
}

AttentionCurve read_attention(const Value& value) {
  Map map = value.as_map();
  const bool wide = map.choice_or("format", "16 bits", {"16 bits", "fp32"}) == "fp32";
  const auto library = map.optional("library");
  AttentionCurve curve{.width = map.require("width").as_positive_number(),
                       .wide = wide,
                       .cudnn = library && library->as_choice({"cudnn"}) == "cudnn",
                       .forward = read_pass(map.require("forward")),
                       .backward = read_pass(map.require("backward")),
                       .source = source_of(map)};
  map.finish();
  return curve;
}

DeviceKernels read_device(const Value& value) {
  Map map = value.as_map();
  const auto rate = [&](const char* key) {
    const auto stated = map.optional(key);
    return stated ? stated->as_flops_per_second() : FlopsPerSecond(0);
  };
  DeviceKernels device{
      .cpu = map.bool_or("cpu", false),
      .fp32 = rate("fp32"),
      .tf32 = rate("tf32"),
      .tensor = rate("tensor"),
      .memory_bandwidth = map.require("memory_bandwidth").as_bytes_per_second(),
      .launch = map.require("launch").as_seconds(),
      .copies = map.require("copies").as_positive_number(),
      .optimizer_per_parameter = map.require("optimizer_per_parameter").as_seconds()};
  map.finish();
  return device;
}

std::vector<double> read_residual(const Value& value) {
  std::vector<double> knots;
  for (const Value& knot : value.as_list()) knots.push_back(knot.as_number());
  if (knots.size() != kResidualKnots) {
    value.fail(fmt::format("expected {} knots; got {}", kResidualKnots, knots.size()));
  }
  return knots;
}

KernelError read_error(const Value& value) {
  Map map = value.as_map();
  KernelError error{.family = map.require("family").as_string(),
                    .of = map.require("of").as_string(),
                    .unseen = map.require("unseen").as_string(),
                    .source = source_of(map),
                    .points = map.require("points").as_positive_number(),
                    .mean = map.require("mean").as_non_negative_number(),
                    .median = map.require("median").as_non_negative_number(),
                    .p90 = map.require("p90").as_non_negative_number(),
                    .bias = map.require("bias").as_number()};
  map.finish();
  return error;
}

Ends<double> read_span(const Value& value) {
  const std::vector<Value> ends = value.as_list();
  if (ends.size() != 2) value.fail("expected two sizes: the least and the largest");
  const Ends<double> span{ends[0].as_positive_number(), ends[1].as_positive_number()};
  if (span.low > span.high) value.fail("the largest size stands in front of the least");
  return span;
}

MeasuredKernels read_measured(const Value& value) {
  Map map = value.as_map();
  MeasuredKernels measured{.kernels = map.require("kernels").as_string(),
                           .on = map.require("on").as_string(),
                           .own_chip = map.require("chip").as_choice({"own", "others"}) == "own",
                           .off = std::nullopt,
                           .sizes = {}};
  if (const auto off = map.optional("off")) measured.off = off->as_non_negative_number();
  Map sizes = map.require("sizes").as_map();
  for (const std::string& name : size_names(measured.kernels))
    measured.sizes.push_back(read_span(sizes.require(name)));
  sizes.finish();
  map.finish();
  return measured;
}

void read_share(Map& map, const char* key, double& share) {
  if (const auto value = map.optional(key)) share = value->as_positive_number();
}

/// Forward and backward.
std::array<double, 2> read_rates(const Value& value) {
  const std::vector<Value> ways = value.as_list();
  if (ways.size() != 2) value.fail("expected two rates, forward and backward");
  return {ways[0].as_positive_number(), ways[1].as_positive_number()};
}

void read_image_kernels(Map& map, KernelCurves& curves) {
  if (const auto norm = map.optional("batch_norm")) {
    Map rates = norm->as_map();
    curves.norm_fp32 = {read_rates(rates.require("fp32")),
                        read_rates(rates.require("fp32_channel"))};
    curves.norm_bf16 = {read_rates(rates.require("bf16")),
                        read_rates(rates.require("bf16_channel"))};
    curves.norm_bf16_last = {.all = read_rates(rates.require("bf16_channels_last"))};
    source_of(rates);
    rates.finish();
  }
  if (const auto pool = map.optional("max_pool")) {
    Map rates = pool->as_map();
    curves.max_pool = read_rates(rates.require("contiguous"));
    curves.max_pool_last = read_rates(rates.require("channels_last"));
    source_of(rates);
    rates.finish();
  }
  if (const auto rate = map.optional("conversion")) curves.conversion = rate->as_positive_number();
}

void read_factors(Map& map, KernelCurves& curves) {
  Map sustained = map.require("sustained").as_map();
  curves.sustained = sustained.require("share").as_positive_number();
  curves.sustained_source = source_of(sustained);
  sustained.finish();
  Map gradients = map.require("gradients").as_map();
  curves.input_gradient = gradients.require("input").as_positive_number();
  curves.weight_gradient = gradients.require("weight").as_positive_number();
  read_share(gradients, "tf32_input", curves.tf32_input_gradient);
  read_share(gradients, "tf32_weight", curves.tf32_weight_gradient);
  read_share(gradients, "exact_fp8", curves.exact_fp8);
  source_of(gradients);
  gradients.finish();
  Map convolution = map.require("convolution").as_map();
  curves.convolution = convolution.require("share").as_positive_number();
  curves.convolution_prologue = convolution.require("prologue").as_non_negative_number();
  curves.convolution_small_tiles = convolution.require("small_tiles").as_non_negative_number();
  read_share(convolution, "tf32", curves.tf32_convolution);
  read_share(convolution, "tf32_weight", curves.tf32_convolution_weight);
  source_of(convolution);
  convolution.finish();
  Map memory = map.require("memory").as_map();
  curves.pointwise = memory.require("pointwise").as_positive_number();
  curves.rows = memory.require("rows").as_positive_number();
  curves.rows_backward = memory.require("rows_backward").as_positive_number();
  curves.wide_pointwise = memory.require("wide_pointwise").as_positive_number();
  curves.wide_rows = memory.require("wide_rows").as_positive_number();
  const auto backward = memory.optional("wide_rows_backward");
  curves.wide_rows_backward = backward ? backward->as_positive_number() : curves.wide_rows;
  source_of(memory);
  memory.finish();
}

void read_optimizer(Map& map, KernelCurves& curves) {
  const auto optimizer = map.optional("optimizer");
  if (!optimizer) return;
  Map shares = optimizer->as_map();
  curves.optimizer = {.foreach = shares.require("foreach").as_positive_number(),
                      .fused = shares.require("fused").as_positive_number(),
                      .narrow_foreach = shares.require("narrow_foreach").as_positive_number(),
                      .narrow_fused = shares.require("narrow_fused").as_positive_number()};
  source_of(shares);
  shares.finish();
}

void read_slow_kernels(Map& map, KernelCurves& curves) {
  if (const auto rate = map.optional("unvectorized"))
    curves.unvectorized = rate->as_positive_number();
  if (const auto rate = map.optional("adamw_8bit")) curves.adamw_8bit = rate->as_positive_number();
  if (const auto narrow = map.optional("fp8_attention")) {
    Map ways = narrow->as_map();
    curves.fp8_attention = {ways.require("forward").as_positive_number(),
                            ways.require("backward").as_positive_number()};
    source_of(ways);
    ways.finish();
  }
  const auto unaligned = map.optional("unaligned");
  if (!unaligned) return;
  constexpr double kTera = 1e12;
  Map rates = unaligned->as_map();
  for (const auto& [key, rate] :
       {std::pair("1", &curves.unaligned), std::pair("2", &curves.half_aligned),
        std::pair("tf32", &curves.unaligned_tf32), std::pair("batched_4", &curves.batched_by_four)})
    if (const auto value = rates.optional(key))
      *rate = FlopsPerSecond(kTera * value->as_positive_number());
  source_of(rates);
  rates.finish();
}

}  // namespace

std::shared_ptr<const KernelCurves> read_kernel_curves(const std::filesystem::path& file) {
  const std::shared_ptr<const Document> document = Document::load(file);
  Map map = document->root().as_map();
  KernelCurves curves;
  curves.gpu = map.require("gpu").as_string();
  curves.date = map.require("date").as_string();
  curves.sms = map.require("sms").as_positive_number();
  if (const auto device = map.optional("device")) curves.device = read_device(*device);
  Map products = map.require("products").as_map();
  for (const std::string& format : products.keys()) {
    curves.products.emplace(format, read_product(products.require(format)));
  }
  products.finish();
  if (const auto residual = map.optional("residual")) curves.residual = read_residual(*residual);
  if (const auto attention = map.optional("attention")) {
    for (const Value& one : attention->as_list()) curves.attention.push_back(read_attention(one));
  }
  read_factors(map, curves);
  read_slow_kernels(map, curves);
  read_image_kernels(map, curves);
  read_optimizer(map, curves);
  for (const Value& measured : map.require("measured").as_list())
    curves.measured.push_back(read_measured(measured));
  for (const Value& error : map.require("errors").as_list()) {
    curves.errors.push_back(read_error(error));
  }
  map.finish();
  return std::make_shared<const KernelCurves>(std::move(curves));
}

}  // namespace rehearse::inline kernels
