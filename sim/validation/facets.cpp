#include "validation/facets.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
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

}  // namespace

Facets facets_of(const Json& report) {
  return {.gpu = gpu_class(report),
          .framework = report.value("framework", Json::object()).value("title", ""),
          .work = report.value("work", "")};
}

}  // namespace rehearse::inline validation
