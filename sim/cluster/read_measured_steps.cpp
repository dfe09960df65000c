#include <string>

#include "base/data_folder.hpp"
#include "cluster/parts.hpp"

namespace rehearse::inline cluster {
namespace {

std::vector<std::string> mechanisms_of_times() {
  const auto document = Document::load(platforms_path("intervals.yaml"));
  return document->root().as_map().require("times").as_map().keys();
}

}  // namespace

std::vector<std::map<std::string, double>> read_measured_steps(const Value& value) {
  const std::vector<std::string> mechanisms = mechanisms_of_times();
  std::vector<std::map<std::string, double>> steps;
  for (const Value& step : value.as_list()) {
    Map shares = step.as_map();
    steps.emplace_back();
    for (const std::string& mechanism : mechanisms)
      if (const std::optional<Value> share = shares.optional(mechanism)) {
        const double part = share->as_non_negative_number();
        if (part > 1) share->fail("a part of a step is at most 1", "as --calibrate wrote it");
        steps.back()[mechanism] = part;
      }
    shares.finish();
  }
  return steps;
}

}  // namespace rehearse::inline cluster
