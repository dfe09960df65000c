// What is 16-bit in a run, in words.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "scenario/sections.hpp"
#include "strategy/sharded_parameters.hpp"

namespace rehearse::inline scenario {
namespace {

const char* element_name(Precision precision) {
  if (parameter_element(precision) == Bytes(4)) return "fp32";
  return precision == Precision::fp16_pure || precision == Precision::fp16_pure_autocast ? "fp16"
                                                                                         : "bf16";
}

/// FSDP's own part: autocast alone leaves what it gathers and reduces in fp32.
std::string fsdp_line(const ShardedParameters& fsdp, Precision precision) {
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

/// As what trained parameters are stored: of adapters their own, whatever the frozen ones are.
std::set<StoredAs> trained_storages(const Model& model) {
  std::set<StoredAs> storages;
  for (const Unit& unit : model.units)
    for (std::size_t i = 0; i < unit.tensors.size(); ++i)
      if (unit.trait(i).trained) storages.insert(unit.trait(i).storage);
  return storages;
}

const char* narrow_name(Precision precision) {
  return precision == Precision::nvfp4 ? "NVFP4" : precision == Precision::mxfp8 ? "MXFP8" : "FP8";
}

/// What TransformerEngine makes of the linear layers.
std::string narrow_line(const Scenario& scenario) {
  const auto [first, last] = std::pair(scenario.shape.wide_at_start, scenario.shape.wide_at_end);
  const bool keeps_ends = first + last > 0;
  return fmt::format(
      "formats: linear layers of blocks multiply in {} with a scale per {} (TransformerEngine); "
      "{}attention, logits and all else in bf16",
      scenario.precision == Precision::nvfp4 ? "NVFP4" : "FP8",
      scenario.precision == Precision::nvfp4   ? "16 elements"
      : scenario.precision == Precision::mxfp8 ? "32 elements"
                                               : "tensor",
      keeps_ends ? fmt::format("those of the first {} and the last {}, ", first, last) : "");
}

std::string float8_line(Float8 recipe) {
  return fmt::format(
      "formats: linear layers of blocks multiply in FP8 with a scale per {} (torchao)",
      recipe == Float8::rowwise ? "row" : "tensor");
}

void check_units(const Gpu& gpu, Precision precision, const Value& value) {
  if (gpu.fp8 == FlopsPerSecond(0))
    value.fail(fmt::format("{} has no FP8 units", gpu.name), "precision: bf16_master");
  const bool has = precision == Precision::fp8 ||
                   (gpu.architecture->block_formats &&
                    (precision == Precision::mxfp8 || gpu.fp4 > FlopsPerSecond(0)));
  if (!has)
    value.fail(fmt::format("{} has no {}: Blackwell has", gpu.name, narrow_name(precision)),
               "precision: fp8");
}

/// Nothing is narrow that could be kept from it.
void check_idle_ends(const Value& model, const Scenario& scenario) {
  for (const char* key : {"num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16"})
    if (!is_narrow(scenario.precision) && model.as_map().has(key))
      model.as_map().at_key(key).fail(
          fmt::format("under {} no layer multiplies in fewer bits", to_string(scenario.precision)),
          "precision: fp8, or leave the key out");
}

}  // namespace

void check_kept_narrow(const Value& strategy, const Scenario& scenario) {
  const Precision precision = scenario.precision;
  const auto refuse = [&](const char* key, int bits, const char* remedy) {
    strategy.as_map().require("zero").as_map().at_key(key).fail(
        fmt::format("it keeps weights in {} bits, and under {} none multiply in them", bits,
                    to_string(precision)),
        remedy);
  };
  if (gathers_fp8(scenario.strategy) && precision != Precision::fp8 &&
      precision != Precision::mxfp8)
    refuse("fp8_param_gather", 8, "model.precision: fp8, or remove it");
  if (gathers_fp4(scenario.strategy) && precision != Precision::nvfp4)
    refuse("fp4_param_gather", 4, "model.precision: nvfp4, or remove it");
}

namespace {

void check_float8(const Value& model, const Scenario& scenario) {
  if (scenario.model.float8 == Float8::none) return;
  const Value value = model.as_map().at_key("float8");
  if (is_narrow(scenario.precision))
    value.fail(fmt::format("precision: {} multiplies in 8 bits already, as TransformerEngine does",
                           to_string(scenario.precision)),
               "leave one of the two out");
  if (scenario.model.compile < Compile::blocks)
    value.fail("torchao's casts are fast under torch.compile alone", "compile: blocks");
  if (scenario.model.narrow_parameters() == 0)
    value.fail(fmt::format("{} has no linear layers of blocks that could multiply in FP8",
                           scenario.model.name),
               "leave it out");
  for (const NodeGroup& group : scenario.cluster.groups)
    if (group.node.gpus > 0 && group.node.gpu.fp8 == FlopsPerSecond(0))
      value.fail(fmt::format("{} has no FP8 units", group.node.gpu.name), "leave it out");
}

}  // namespace

void check_narrow(const Value& model, const Scenario& scenario) {
  check_idle_ends(model, scenario);
  check_float8(model, scenario);
  if (!is_narrow(scenario.precision)) return;
  const Value value = model.as_map().at_key("precision");
  const bool keeps_ends = scenario.shape.wide_at_start + scenario.shape.wide_at_end > 0;
  if (scenario.model.narrow_parameters() == 0)
    value.fail(fmt::format("{} has no linear layers of blocks that could multiply in {}{}",
                           scenario.model.name, narrow_name(scenario.precision),
                           keeps_ends ? ": all blocks stay in bf16" : ""),
               keeps_ends ? "keep fewer blocks in bf16" : "precision: bf16_master");
  for (const NodeGroup& group : scenario.cluster.groups)
    if (group.node.gpus > 0) check_units(group.node.gpu, scenario.precision, value);
}

std::vector<std::string> numeric_formats(const Scenario& scenario) {
  const Precision precision = scenario.precision;
  const auto fsdp = sharded_in(scenario.strategy);
  const bool mixed = fsdp && (fsdp->param_dtype || fsdp->reduce_dtype);
  if (!is_autocast(precision) && parameter_element(precision) == Bytes(4) && !mixed &&
      has_plain_formats(scenario.optimizer) && scenario.model.float8 == Float8::none) {
    return {};
  }
  std::vector<std::string> lines;
  if (fsdp && (mixed || is_autocast(precision))) lines.push_back(fsdp_line(*fsdp, precision));
  if (is_narrow(precision)) lines.push_back(narrow_line(scenario));
  if (scenario.model.float8 != Float8::none) lines.push_back(float8_line(scenario.model.float8));
  for (const StoredAs storage : trained_storages(scenario.model)) {
    std::string line = fmt::format("formats: {} has {}", to_string(scenario.optimizer.kind),
                                   describe_formats(on_storage(scenario.optimizer, storage)));
    if (std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace rehearse::inline scenario
