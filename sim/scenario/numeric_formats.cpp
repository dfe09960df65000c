// What is 16-bit in a run, in words.
#include <fmt/format.h>

#include "scenario/sections.hpp"

namespace rehearse {
namespace {

const char* element_name(Precision precision) {
  if (parameter_element(precision) == Bytes(4)) return "fp32";
  return precision == Precision::fp16_pure || precision == Precision::fp16_pure_autocast ? "fp16"
                                                                                         : "bf16";
}

/// FSDP's own part: autocast alone leaves what it gathers and reduces in fp32.
std::string fsdp_line(const Fsdp& fsdp, Precision precision) {
  const Precision computes = computes_in(fsdp, precision);
  const std::string moved =
      fmt::format("units are gathered in {} and gradients reduced in {}", element_name(computes),
                  element_name(fsdp.reduce_dtype.value_or(computes)));
  if (fsdp.param_dtype) {
    return fmt::format("formats: FSDP's MixedPrecision: {}{}", moved,
                       is_autocast(computes) ? ", under autocast" : "");
  }
  return fmt::format("formats: FSDP without MixedPrecision (no param_dtype): {}", moved);
}

}  // namespace

void check_fp8(const Value& model, const Scenario& scenario) {
  if (!is_fp8(scenario.precision)) return;
  const Value value = model.as_map().at_key("precision");
  if (scenario.model.narrow_parameters() == 0)
    value.fail(fmt::format("{} has no linear layers of blocks that could multiply in FP8",
                           scenario.model.name),
               "precision: bf16_master");
  for (const NodeGroup& group : scenario.cluster.groups) {
    const Gpu& gpu = group.node.gpu;
    if (group.node.gpus == 0) continue;
    if (gpu.fp8 == FlopsPerSecond(0))
      value.fail(fmt::format("{} has no FP8 units", gpu.name), "precision: bf16_master");
    if (scenario.precision == Precision::mxfp8 && gpu.architecture != GpuArchitecture::blackwell)
      value.fail(fmt::format("{} has no MXFP8: Blackwell has", gpu.name), "precision: fp8");
  }
}

std::vector<std::string> numeric_formats(const Scenario& scenario) {
  const Precision precision = scenario.precision;
  const auto* fsdp = inner_as<Fsdp>(scenario.strategy);
  const bool mixed = fsdp != nullptr && (fsdp->param_dtype || fsdp->reduce_dtype);
  if (!is_autocast(precision) && parameter_element(precision) == Bytes(4) && !mixed &&
      has_plain_formats(scenario.optimizer)) {
    return {};
  }
  std::vector<std::string> lines;
  if (fsdp != nullptr && (mixed || is_autocast(precision)))
    lines.push_back(fsdp_line(*fsdp, precision));
  if (is_fp8(precision))
    lines.push_back(fmt::format(
        "formats: linear layers of blocks multiply in FP8 with a scale per {} "
        "(TransformerEngine); attention, logits and all else in bf16",
        precision == Precision::mxfp8 ? "32 elements" : "tensor"));
  lines.push_back(fmt::format("formats: {} has {}", to_string(scenario.optimizer.kind),
                              describe_formats(scenario.optimizer)));
  return lines;
}

}  // namespace rehearse
