#include "convergence/workloads.hpp"

#include <algorithm>

#include "base/data_folder.hpp"
#include "config/document.hpp"

namespace rehearse::inline convergence {
namespace {

std::vector<std::string> names_at(Map& map, const std::string& key) {
  std::vector<std::string> names;
  for (const Value& one : map.require(key).as_list()) names.push_back(one.as_string());
  return names;
}

std::optional<double> number_at(Map& map, const std::string& key) {
  const auto value = map.optional(key);
  if (!value) return std::nullopt;
  return value->as_positive_number();
}

Workload read_workload(const std::string& name, const Value& value) {
  Map map = value.as_map();
  Workload workload{
      .name = name,
      .networks = names_at(map, "networks"),
      .data = map.require("data").as_string(),
      .target = map.require("target").as_string(),
      .accuracy = number_at(map, "accuracy"),
      .loss = number_at(map, "loss"),
      .optimizer = map.require("optimizer").as_string(),
      .unit = map.require("unit").as_choice({"epochs", "samples", "sequences", "tokens"}),
      .samples_per_epoch = number_at(map, "samples_per_epoch"),
      .sequence = number_at(map, "sequence"),
      .points = {}};
  for (const Value& point : map.require("points").as_list()) {
    const std::vector<Value> numbers = point.as_list();
    workload.points.push_back({.batch = numbers.at(0).as_positive_number(),
                               .amount = numbers.at(1).as_positive_number(),
                               .runs = static_cast<int>(numbers.at(2).as_integer(1, 1000)),
                               .deviation = numbers.at(3).as_non_negative_number()});
  }
  map.finish();
  return workload;
}

FixedLength read_length(const std::string& name, const Value& value) {
  Map map = value.as_map();
  FixedLength length{.name = name,
                     .networks = names_at(map, "networks"),
                     .data = map.require("data").as_string(),
                     .optimizer = map.require("optimizer").as_string(),
                     .source = map.require("source").as_string(),
                     .samples_per_epoch = map.require("samples_per_epoch").as_positive_number(),
                     .epochs = map.require("epochs").as_positive_number(),
                     .ends = {}};
  for (const Value& end : map.require("ends").as_list()) {
    const std::vector<Value> numbers = end.as_list();
    length.ends.push_back({.batch = numbers.at(0).as_positive_number(),
                           .accuracy = numbers.at(1).as_positive_number(),
                           .deviation = numbers.at(2).as_non_negative_number()});
  }
  map.finish();
  return length;
}

Workloads read_all() {
  const auto document = Document::load(platforms_path("convergence/workloads.yaml"));
  Map root = document->root().as_map();
  Workloads all;
  Map prior = root.require("prior").as_map();
  all.prior = {.freedom = prior.require("freedom").as_positive_number(),
               .deviation = prior.require("deviation").as_positive_number()};
  Map workloads = root.require("workloads").as_map();
  for (const std::string& name : workloads.keys())
    all.workloads.push_back(read_workload(name, workloads.require(name)));
  Map lengths = root.require("lengths").as_map();
  for (const std::string& name : lengths.keys())
    all.lengths.push_back(read_length(name, lengths.require(name)));
  return all;
}

}  // namespace

std::optional<double> Workload::samples_of_unit() const {
  if (unit == "epochs") return samples_per_epoch;
  if (unit == "tokens") return sequence ? std::optional(1 / *sequence) : std::nullopt;
  return 1;
}

std::optional<bool> FixedLength::reaches(double batch, double accuracy) const {
  if (batch < ends.front().batch / kBatchesBeyond || batch > ends.back().batch * kBatchesBeyond)
    return std::nullopt;
  const auto missed =
      std::ranges::find_if(ends, [&](const EndByBatch& end) { return end.accuracy < accuracy; });
  if (missed == ends.end()) return true;
  if (batch >= missed->batch) return false;
  if (missed != ends.begin() && batch <= std::prev(missed)->batch) return true;
  return std::nullopt;
}

const Workloads& known_workloads() {
  static const Workloads kAll = read_all();
  return kAll;
}

}  // namespace rehearse::inline convergence
