#include "scenario/captured_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "config/record_set.hpp"
#include "model/captured/captured.hpp"
#include "scenario/limits.hpp"
#include "strategy/sharded_parameters.hpp"

namespace rehearse::inline scenario {
namespace {

constexpr std::int64_t kMostTokensOfOne = 10'000'000;

}  // namespace

Model read_captured_network(const std::string& file, const ModelShape& shape) {
  if (!is_input_file(file))
    throw InputError(
        fmt::format("rehearse: error: no file \"{}\"\n"
                    "remedy: rehearse capture NAME --out {}",
                    file, file));
  if (shape.image > 0)
    throw InputError(
        fmt::format("{}: error: --image: its images are as large as captured\n"
                    "remedy: capture it with images of that size",
                    file));
  return captured::read_captured(file, shape.sequence);
}

void read_captured_model(const Value& value, Map& map, Scenario& scenario) {
  const std::filesystem::path file = value.folder() / value.as_string();
  if (!is_input_file(file))
    value.fail(fmt::format("no file \"{}\"", file.string()),
               "Python's rehearse_sim.capture(module, inputs) writes it");
  std::int64_t length = 0;
  if (map.has("sequence")) length = map.require("sequence").as_integer(1, kMostTokensOfOne);
  scenario.model = captured::read_captured(file, length);
  if (const int ranks = scenario.model.captured->tensor_parallel; ranks > 1)
    value.fail(
        fmt::format("{} is one of {} tensor ranks", file.string(), ranks),
        fmt::format("the whole network's file, and tensor_parallel: {} in the strategy, which "
                    "finds this one beside it",
                    ranks));
  if (map.has("precision")) {
    scenario.precision = parse_precision(map.require("precision").as_choice(precision_names()));
  } else {
    scenario.precision = scenario.model.captured->precision;
    scenario.assumptions.push_back("model.precision = " + to_string(scenario.precision));
  }
  const Value batch = map.require("batch_per_gpu");
  scenario.batch_per_gpu = batch.as_integer(1, kLargestBatch);
  const std::int64_t only = scenario.model.captured->batch;
  if (only > 0 && scenario.batch_per_gpu != only)
    batch.fail(fmt::format("{} was captured at batch {} alone", file.string(), only),
               fmt::format("{}; or capture(..., batches=(2, 4, 7)), which holds at any", only));
}

// Master weights are the optimizer's alone, so that both precisions run the same operators. Under
// FSDP's mixed precision parameters are kept in one type, and units compute in another.
void check_captured_precision(const Value& model, const Value& strategy, const Scenario& scenario) {
  if (!scenario.model.captured) return;
  const Precision captured = scenario.model.captured->precision;
  const Precision computes = computes_in(scenario.strategy, scenario.precision);
  if (computes == computed_in(captured)) return;
  const auto fsdp = sharded_in(scenario.strategy);
  const bool mixed = fsdp && fsdp->param_dtype;
  const Map map = model.as_map();
  const Value at = map.has("precision") && !mixed ? map.at_key("precision") : strategy;
  const Precision asked = mixed ? computes : scenario.precision;
  std::string remedy = fmt::format("capture(..., precision=\"{}\")", to_string(asked));
  if (fsdp && !mixed && asked == Precision::fp32 && computed_in(captured) == Precision::bf16_pure)
    remedy += ", or param_dtype: bf16 of the strategy";
  at.fail(fmt::format(
              "the model was captured in {}{}", to_string(captured),
              mixed ? fmt::format(", and its units compute in {} here", to_string(computes)) : ""),
          remedy);
}

}  // namespace rehearse::inline scenario
