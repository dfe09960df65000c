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

std::vector<std::string> numeric_formats(const Scenario& scenario) {
  const Precision precision = scenario.precision;
  const auto* fsdp = std::get_if<Fsdp>(&scenario.strategy);
  const bool mixed = fsdp != nullptr && (fsdp->param_dtype || fsdp->reduce_dtype);
  if (!is_autocast(precision) && parameter_element(precision) == Bytes(4) && !mixed &&
      has_plain_formats(scenario.optimizer)) {
    return {};
  }
  std::vector<std::string> lines;
  if (fsdp != nullptr && (mixed || is_autocast(precision)))
    lines.push_back(fsdp_line(*fsdp, precision));
  lines.push_back(fmt::format("formats: {} has {}", to_string(scenario.optimizer.kind),
                              describe_formats(scenario.optimizer)));
  return lines;
}

}  // namespace rehearse
