#include "predict/wire.hpp"

#include <optional>
#include <string>

namespace rehearse::inline prediction {
namespace {

using Json = nlohmann::json;

template <class Quantity>
void put(Json& json, const char* key, const std::optional<Quantity>& value) {
  if (value) json[key] = value->value();
}

/// Nothing where it was not put.
template <class Quantity>
std::optional<Quantity> quantity(const Json& json, const char* key) {
  if (!json.contains(key)) return std::nullopt;
  return Quantity(json[key].get<double>());
}

}  // namespace

void to_json(Json& json, const Headline& figures) {
  json = {{"step", figures.step_time.value()}, {"rate", figures.samples_per_s}};
  if (figures.staleness) json["staleness"] = *figures.staleness;
  put(json, "worker", figures.worker_step_time);
}

void from_json(const Json& json, Headline& figures) {
  figures = {Seconds(json.at("step").get<double>()), json.at("rate").get<double>(), {}};
  if (json.contains("staleness")) figures.staleness = json["staleness"].get<double>();
  figures.worker_step_time = quantity<Seconds>(json, "worker");
}

void to_json(Json& json, const PacedUpdates& updates) {
  std::vector<double> applied;
  for (const Seconds time : updates.pace.applied) applied.push_back(time.value());
  json = {{"rate", updates.pace.samples_per_s},
          {"samples_per_update", updates.pace.samples_per_update},
          {"applied", applied},
          {"staleness", updates.staleness},
          {"steps", updates.steps},
          {"whole_run", updates.whole_run}};
}

void from_json(const Json& json, PacedUpdates& updates) {
  updates = {.pace = {.samples_per_s = json.at("rate"),
                      .samples_per_update = json.at("samples_per_update"),
                      .applied = {}},
             .staleness = json.at("staleness"),
             .steps = json.at("steps"),
             .whole_run = json.at("whole_run")};
  for (const Json& time : json.at("applied")) updates.pace.applied.emplace_back(time.get<double>());
}

void to_json(Json& json, const FittingChange& change) {
  json = {{"change", change.change},
          {"set", change.set},
          {"changes_training", change.changes_training},
          {"allocated", change.allocated_peak.value()},
          {"used", change.used.value()},
          {"step", change.step_time.value()},
          {"rate", change.samples_per_s}};
  put(json, "reserved", change.reserved_peak);
}

void from_json(const Json& json, FittingChange& change) {
  change = {.change = json.at("change"),
            .set = json.at("set"),
            .changes_training = json.at("changes_training"),
            .allocated_peak = Bytes(json.at("allocated").get<double>()),
            .reserved_peak = quantity<Bytes>(json, "reserved"),
            .used = Bytes(json.at("used").get<double>()),
            .step_time = Seconds(json.at("step").get<double>()),
            .samples_per_s = json.at("rate")};
}

}  // namespace rehearse::inline prediction
