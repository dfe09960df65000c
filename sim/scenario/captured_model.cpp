#include "scenario/captured_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/record_set.hpp"
#include "model/captured/captured.hpp"
#include "scenario/limits.hpp"

namespace rehearse::inline scenario {
namespace {

constexpr std::int64_t kMostTokensOfOne = 10'000'000;

/// Master weights are the optimizer's alone, so that both precisions run the same operators.
Precision asked_precision(Map& map, Precision captured) {
  if (!map.has("precision")) return captured;
  const Value asked = map.require("precision");
  const Precision precision = parse_precision(asked.as_choice(precision_names()));
  if (computed_in(precision) != computed_in(captured))
    asked.fail(fmt::format("the model was captured in {}", to_string(captured)),
               fmt::format("capture(..., precision=\"{}\")", to_string(precision)));
  return precision;
}

}  // namespace

void read_captured_model(const Value& value, Map& map, Scenario& scenario) {
  const std::filesystem::path file = value.folder() / value.as_string();
  if (!is_input_file(file))
    value.fail(fmt::format("no file \"{}\"", file.string()),
               "Python's rehearse_sim.capture(module, inputs) writes it");
  std::int64_t length = 0;
  if (map.has("sequence")) length = map.require("sequence").as_integer(1, kMostTokensOfOne);
  captured::CapturedModel read = captured::read_captured(file, length);
  scenario.precision = asked_precision(map, read.precision);
  if (!map.has("precision"))
    scenario.assumptions.push_back("model.precision = " + to_string(scenario.precision));
  scenario.model = std::move(read.model);
  const Value batch = map.require("batch_per_gpu");
  scenario.batch_per_gpu = batch.as_integer(1, kLargestBatch);
  const std::int64_t only = scenario.model.captured->batch;
  if (only > 0 && scenario.batch_per_gpu != only)
    batch.fail(fmt::format("{} was captured at batch {} alone", file.string(), only),
               fmt::format("{}; or capture(..., batches=(2, 4, 7)), which holds at any", only));
}

}  // namespace rehearse::inline scenario
