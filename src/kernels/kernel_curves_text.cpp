#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "base/quoting.hpp"
#include "kernels/kernel_curves.hpp"
#include "profile/yaml_text.hpp"

namespace rehearse::inline kernels {
namespace {

std::string product_text(const ProductCurve& curve) {
  return fmt::format(
      "{{launch: {}, share: {:.4g}, traffic: {:.4g}, prologue: {:.4g}, small_tiles: {:.4g}, "
      "sharpness: {:.4g}, split: {}, source: {}}}",
      yaml_seconds(curve.launch), curve.share, curve.traffic, curve.prologue, curve.small_tiles,
      curve.sharpness, yaml_seconds(curve.split), yaml_quoted(curve.source));
}

std::string pass_text(const AttentionPass& pass) {
  return fmt::format("{{launch: {}, share: {:.4g}, keys: {:.4g}, traffic: {:.4g}, tail: {:.4g}}}",
                     yaml_seconds(pass.launch), pass.share, pass.keys, pass.traffic, pass.tail);
}

std::string attention_text(const AttentionCurve& curve) {
  return fmt::format("  - {{width: {:.0f}, {}source: {},\n     forward: {},\n     backward: {}}}\n",
                     curve.width, curve.wide ? "format: fp32, " : "", yaml_quoted(curve.source),
                     pass_text(curve.forward), pass_text(curve.backward));
}

std::string measured_text(const MeasuredKernels& one) {
  const std::vector<std::string> names = size_names(one.kernels);
  std::string sizes;
  for (std::size_t i = 0; i < names.size(); ++i) {
    sizes += fmt::format("{}{}: [{:.0f}, {:.0f}]", i == 0 ? "" : ", ", names[i], one.sizes[i].low,
                         one.sizes[i].high);
  }
  const std::string off = one.off ? fmt::format(", off: {:.3f}", *one.off) : "";
  return fmt::format("  - {{kernels: {}, on: {}, chip: {}{}, sizes: {{{}}}}}\n",
                     yaml_quoted(one.kernels), yaml_quoted(one.on), one.own_chip ? "own" : "others",
                     off, sizes);
}

std::string error_text(const KernelError& error) {
  return fmt::format(
      "  - {{family: {}, of: {}, unseen: {}, points: {:.0f}, mean: {:.3f}, median: {:.3f}, p90: "
      "{:.3f}, bias: {:.3f}, source: {}}}\n",
      yaml_quoted(error.family), yaml_quoted(error.of), yaml_quoted(error.unseen), error.points,
      error.mean, error.median, error.p90, error.bias, yaml_quoted(error.source));
}

std::string device_text(const DeviceKernels& device) {
  std::string rates;
  for (const auto& [name, rate] : {std::pair{"fp32", device.fp32}, std::pair{"tf32", device.tf32},
                                   std::pair{"tensor", device.tensor}}) {
    if (rate > FlopsPerSecond(0))
      rates += fmt::format("{}: {}, ", name, yaml_flops_per_second(rate));
  }
  return fmt::format(
      "device: {{cpu: {}, {}memory_bandwidth: {}, launch: {}, copies: {:.4g}, "
      "optimizer_per_parameter: {:.6g}us}}\n",
      device.cpu, rates, yaml_bytes_per_second(device.memory_bandwidth),
      yaml_seconds(device.launch), device.copies, device.optimizer_per_parameter.value() * 1e6);
}

}  // namespace

std::string to_yaml(const KernelCurves& curves, const std::string& comment) {
  std::string text = fmt::format("# {}\ngpu: {}\ndate: {}\nsms: {:.0f}\n", comment,
                                 yaml_quoted(curves.gpu), yaml_quoted(curves.date), curves.sms);
  if (curves.device) text += device_text(*curves.device);
  const auto line = std::back_inserter(text);
  fmt::format_to(line, "sustained: {{share: {:.3f}, source: {}}}\nproducts:\n", curves.sustained,
                 yaml_quoted(curves.sustained_source));
  for (const auto& [format, curve] : curves.products)
    fmt::format_to(line, "  {}: {}\n", format, product_text(curve));
  const std::string here = yaml_quoted(curves.sustained_source);
  fmt::format_to(line, "gradients: {{input: {:.3f}, weight: {:.3f}, source: {}}}\n",
                 curves.input_gradient, curves.weight_gradient, here);
  if (!curves.attention.empty()) text += "attention:\n";
  for (const AttentionCurve& curve : curves.attention) text += attention_text(curve);
  fmt::format_to(
      line,
      "convolution: {{share: {:.3f}, prologue: {:.1f}, small_tiles: {:.3f}, source: D}}\n"
      "memory: {{pointwise: {:.3f}, rows: {:.3f}, rows_backward: {:.3f}, "
      "wide_pointwise: {:.3f}, wide_rows: {:.3f}, wide_rows_backward: {:.3f}, source: "
      "{}}}\nmeasured:\n",
      curves.convolution, curves.convolution_prologue, curves.convolution_small_tiles,
      curves.pointwise, curves.rows, curves.rows_backward, curves.wide_pointwise, curves.wide_rows,
      curves.wide_rows_backward, here);
  for (const MeasuredKernels& one : curves.measured) text += measured_text(one);
  text += "errors:  # of each point, by a fit to all others\n";
  for (const KernelError& error : curves.errors) text += error_text(error);
  return text;
}

}  // namespace rehearse::inline kernels
