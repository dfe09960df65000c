#include "validation/facets.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/cluster.hpp"

namespace rehearse::inline validation {
namespace {

using Json = nlohmann::json;

/// "A100" of A100-SXM-80; names of graphics cards stay whole, as their numbers are their class.
std::string class_of(const std::string& gpu) {
  if (gpu.starts_with("RTX")) return gpu;
  return gpu.substr(0, gpu.find('-'));
}

std::string gpu_class(const Json& report) {
  static const std::vector<std::string> known = gpu_names();
  const Json compute = report.value("compute", Json::array());
  for (const Json& one : compute) {
    const std::string name = one.value("gpu", "");
    if (std::ranges::find(known, name) != known.end()) return class_of(name);
  }
  return "CPUs";
}

/// Whether a strategy's name has a degree of an axis that splits a model: "ddp tp8".
bool splits_a_model(const std::string& strategy) {
  constexpr std::array<std::string_view, 4> kAxes = {"tp", "pp", "cp", "ep"};
  std::istringstream words(strategy);
  for (std::string word; words >> word;) {
    const auto is_axis = [&](std::string_view axis) {
      return word.starts_with(axis) && word.size() > axis.size() &&
             std::isdigit(static_cast<unsigned char>(word[axis.size()])) != 0;
    };
    if (std::ranges::any_of(kAxes, is_axis)) return true;
  }
  return false;
}

std::string work_of(const Json& report) {
  const std::string strategy = report.value("strategy", "");
  if (strategy.starts_with("ps ")) return "servers";
  const Json network = report.value("architecture", Json());
  const auto count = [&](const char* key) { return network.value(key, 0.0); };
  if (network.is_object() && count("active_parameters") < count("parameters")) return "experts";
  if (network.is_object() && 2 * count("trainable_parameters") < count("parameters"))
    return "adapters";
  if (splits_a_model(strategy)) return "layouts";
  if (report.value("ranks", 1) == 1) return "one GPU";
  return report.value("nodes", 1) == 1 ? "replicas in a node" : "replicas on nodes";
}

}  // namespace

Facets facets_of(const Json& report) {
  return {.gpu = gpu_class(report),
          .framework = report.value("framework", Json::object()).value("title", ""),
          .work = work_of(report)};
}

}  // namespace rehearse::inline validation
