#include "validation/recorded.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.hpp"
#include "base/percentile.hpp"
#include "config/json/json_text.hpp"
#include "config/record_set.hpp"
#include "config/whole_file.hpp"

namespace rehearse::inline validation {
namespace {

using Json = nlohmann::json;

const char* const kSchema = "rehearse.step/1";
const char* const kMeasureAgain = "measure it again with rehearse-calibrate step --output FILE";

Json parse_report(const std::string& text, const std::string& file, const Value& name) {
  try {
    Json report = parsed_json(text);
    return report;
  } catch (const Json::exception&) {
    name.fail(fmt::format("{} is not a whole JSON file", file), kMeasureAgain);
  }
}

/// The bytes of the report; a missing one is shown where it is named.
std::string read_text(const std::filesystem::path& file, const Value& name) {
  try {
    return read_whole_file(file);
  } catch (const MissingError&) {
    try {
      name.fail(fmt::format("cannot read {}", file.string()),
                remedy_for_missing(file, kMeasureAgain));
    } catch (const InputError& placed) {
      throw MissingError(placed.what());
    }
  }
}

/// What a rank's caching allocator held; 0 where it had none, or the report is from before there
/// was a word on it.
Bytes reserved_peak(const Json& rank) {
  const auto memory = rank.find("memory");
  if (memory == rank.end() || memory->at("reserved_peak_bytes").is_null()) return Bytes(0);
  return Bytes(memory->at("reserved_peak_bytes").get<double>());
}

/// Every rank's share of the report; a node that only serves has no steps. The step time is the
/// mean of the ranks' medians: a median of all steps would lie anywhere between those of unlike
/// workers.
void add_ranks(const Json& report, RecordedRun& run) {
  double medians = 0;
  for (const Json& rank : report.at("per_rank")) {
    const auto steps = rank.at("step_times_s").get<std::vector<double>>();
    if (steps.empty()) continue;
    if (!std::ranges::all_of(steps, [](double s) { return s > 0; }))
      throw std::invalid_argument("per_rank: a measured step that took no time");
    ++run.ranks;
    medians += percentile(steps, 0.5);
    const Bytes peak(rank.at("allocated_peak_bytes").get<double>());
    run.allocated_peak = std::max(run.allocated_peak, peak);
    run.reserved_peak = std::max(run.reserved_peak, reserved_peak(rank));
  }
  if (run.ranks == 0) throw std::invalid_argument("per_rank: no measured step");
  run.step_time = Seconds(medians / static_cast<double>(run.ranks));
}

RecordedRun from_report(const Json& report) {
  RecordedRun run;
  report.at("strategy").get_to(run.strategy);
  report.at("model").get_to(run.model);
  report.at("precision").get_to(run.precision);
  report.at("hardware").get_to(run.hardware);
  report.at("date").get_to(run.date);
  report.at("batch_per_rank").get_to(run.batch);
  add_ranks(report, run);
  if (const auto staleness = report.find("staleness"); staleness != report.end()) {
    run.staleness = read_histogram(staleness->at("histogram"));
  }
  return run;
}

}  // namespace

StalenessHistogram read_histogram(const std::map<std::string, std::uint64_t>& object) {
  StalenessHistogram histogram;
  for (const auto& [staleness, count] : object) {
    if (count > 0) histogram[static_cast<std::uint32_t>(std::stoul(staleness))] = count;
  }
  return histogram;
}

RecordedRun read_recorded(const Value& name) {
  const std::filesystem::path file = (name.folder() / name.as_string()).lexically_normal();
  const std::string shown = file.string();
  const Json report = parse_report(read_text(file, name), shown, name);
  const std::string schema = report.is_object() ? json_text(report.value("schema", Json())) : "";
  if (schema != fmt::format("\"{}\"", kSchema)) {
    name.fail(fmt::format("{} is no report of real steps: expected the schema {}", shown, kSchema),
              kMeasureAgain);
  }
  RecordedRun run;
  try {
    run = from_report(report);
  } catch (const std::exception& error) {  // nlohmann's, or ours: each says what it misses
    name.fail(fmt::format("{} lacks what a report of real steps has: {}", shown, error.what()),
              kMeasureAgain);
  }
  if (run.has_server() && run.staleness.empty()) {
    name.fail(fmt::format("{} is of {} and has no staleness.histogram", shown, run.strategy),
              kMeasureAgain);
  }
  return run;
}

double distance(const StalenessHistogram& a, const StalenessHistogram& b) {
  std::set<std::uint32_t> places;
  for (const StalenessHistogram* one : {&a, &b}) {
    for (const auto& [staleness, count] : *one) places.insert(staleness);
  }
  const auto share = [](const StalenessHistogram& histogram, std::uint32_t most) {
    std::uint64_t at_most = 0;
    for (const auto& [staleness, count] : histogram) at_most += staleness <= most ? count : 0;
    return static_cast<double>(at_most) / static_cast<double>(updates(histogram));
  };
  double largest = 0;
  for (const std::uint32_t place : places) {
    largest = std::max(largest, std::abs(share(a, place) - share(b, place)));
  }
  return largest;
}

}  // namespace rehearse::inline validation
