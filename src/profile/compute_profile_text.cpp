#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "base/quoting.hpp"
#include "profile/compute_profile.hpp"
#include "profile/yaml_text.hpp"

namespace rehearse::inline profile {
namespace {

std::string origin_text(const ProfileOrigin& origin) {
  return fmt::format(
      "provenance:\n  device: {}\n  driver: {}\n  cuda: {}\n  nccl: {}\n  libtorch: {}\n  date: "
      "{}\n  command: {}\n  host_threads: {}\n",
      yaml_quoted(origin.device), yaml_quoted(origin.driver), yaml_quoted(origin.cuda),
      yaml_quoted(origin.nccl), yaml_quoted(origin.libtorch), yaml_quoted(origin.date),
      yaml_quoted(origin.command), origin.host_threads);
}

std::string sample_text(const ComputeProfile& profile) {
  if (profile.image > 0) return fmt::format("sample: {{image: {}}}\n", profile.image);
  if (profile.sequence > 0) return fmt::format("sample: {{sequence: {}}}\n", profile.sequence);
  return fmt::format("sample: {{input: {}}}\n", yaml_quoted(profile.input));
}

std::string rates_text(const DeviceRates& rates) {
  std::string text = "rates: {";
  const auto add = [&text](const char* format, FlopsPerSecond rate) {
    if (rate.value() > 0) text += fmt::format("{}: {}, ", format, yaml_flops_per_second(rate));
  };
  add("fp32", rates.fp32);
  add("tf32", rates.tf32);
  add("fp16", rates.fp16);
  add("bf16", rates.bf16);
  return text + fmt::format("memory_bandwidth: {}, memory: {}}}\n",
                            yaml_bytes_per_second(rates.memory_bandwidth),
                            yaml_bytes(rates.memory));
}

/// Names of TorchScript files and submodules may be digits alone, which YAML would take for a
/// number.
std::string name_text(const std::string& name) {
  const bool plain = std::isalpha(static_cast<unsigned char>(name.front())) != 0 &&
                     std::all_of(name.begin(), name.end(), [](unsigned char c) {
                       return std::isalnum(c) != 0 || c == '_' || c == '.';
                     });
  return plain ? name : yaml_quoted(name);
}

std::string operator_text(const recorded::Operator& one) {
  std::string text = fmt::format("{{name: {}, ", name_text(one.name));
  if (one.is_product())
    text +=
        fmt::format("rows: {:g}, inner: {:g}, columns: {:g}, ", one.rows, one.inner, one.columns);
  if (one.bias) text += "bias: true, ";
  if (one.heads > 0) text += fmt::format("heads: {}, kv_heads: {}, ", one.heads, one.kv_heads);
  if (one.sum) text += "sum: true, ";
  return text + fmt::format("forward: {:.4f}, backward: {:.4f}}}", one.forward, one.backward);
}

std::string profiled_unit_text(const ProfiledUnit& unit) {
  std::string text = fmt::format("  - {{name: {}, tensors: [{}]", name_text(unit.name),
                                 fmt::join(unit.tensors, ", "));
  if (unit.buffer_elements > 0) text += fmt::format(", buffer_elements: {}", unit.buffer_elements);
  if (unit.handed > Bytes(0)) text += fmt::format(", handed: {}", yaml_bytes(unit.handed));
  if (!unit.operators.empty()) {
    std::vector<std::string> operators;
    std::ranges::transform(unit.operators, std::back_inserter(operators), operator_text);
    text += fmt::format(", operators: [{}]", fmt::join(operators, ", "));
  }
  return text + "}\n";
}

std::string unit_text(const UnitTimes& unit) {
  std::string text = fmt::format(
      "      - {{name: {}, forward: {}, backward: {}, forward_spread: {:.4f}, "
      "backward_spread: {:.4f}, saved: {}, workspace: {}, forward_flops: {:.0f}, backward_flops: "
      "{:.0f}, forward_moved: {}, backward_moved: {}",
      name_text(unit.name), yaml_seconds(unit.forward), yaml_seconds(unit.backward),
      unit.forward_spread, unit.backward_spread, yaml_bytes(unit.saved), yaml_bytes(unit.workspace),
      unit.forward_flops.value(), unit.backward_flops.value(), yaml_bytes(unit.forward_moved),
      yaml_bytes(unit.backward_moved));
  if (unit.forward_launch + unit.backward_launch > Seconds(0)) {
    text += fmt::format(", forward_launch: {}, backward_launch: {}",
                        yaml_seconds(unit.forward_launch), yaml_seconds(unit.backward_launch));
  }
  return text + "}\n";
}

std::string point_text(const BatchPoint& point) {
  std::string text = fmt::format("  - batch: {}\n    repetitions: {}\n    allocated_peak: {}\n",
                                 point.batch, point.repetitions, yaml_bytes(point.allocated_peak));
  if (point.reserved_peak) {
    text += fmt::format("    reserved_peak: {}\n", yaml_bytes(*point.reserved_peak));
  }
  text += fmt::format(
      "    whole: {{forward: {}, backward: {}, optimizer: {}, step: {}}}\n    sum_check: "
      "{{units: {}, whole: {}, difference: {:.4f}}}\n    units:\n",
      yaml_seconds(point.whole.forward), yaml_seconds(point.whole.backward),
      yaml_seconds(point.whole.optimizer), yaml_seconds(point.whole.step),
      yaml_seconds(point.units_sum()), yaml_seconds(point.whole.forward + point.whole.backward),
      point.sum_difference());
  for (const UnitTimes& unit : point.units) text += unit_text(unit);
  return text;
}

std::string optimizers_text(const std::vector<OptimizerTime>& optimizers) {
  if (optimizers.empty()) return "optimizers: {}\n";
  std::string text = "optimizers:\n";
  for (const OptimizerTime& one : optimizers) {
    text += fmt::format("  {}: {{time: {}, spread: {:.4f}, repetitions: {}}}\n", one.kind,
                        yaml_seconds(one.time), one.spread, one.repetitions);
  }
  return text;
}

}  // namespace

std::string to_yaml(const ComputeProfile& profile) {
  std::string text = fmt::format("schema: {}\nkind: compute\n", kProfileSchema);
  text += origin_text(profile.origin);
  text += fmt::format("model: {}\nprecision: {}\n", name_text(profile.model),
                      to_string(profile.precision));
  text += sample_text(profile) + rates_text(profile.rates) + "units:\n";
  for (const ProfiledUnit& unit : profile.units) text += profiled_unit_text(unit);
  text += fmt::format("step_optimizer: {}\n", profile.step_optimizer);
  text += optimizers_text(profile.optimizers);
  text += profile.points.empty() ? "points: []\n" : "points:\n";
  for (const BatchPoint& point : profile.points) text += point_text(point);
  return text;
}

}  // namespace rehearse::inline profile
