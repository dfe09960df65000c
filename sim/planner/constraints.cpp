#include "planner/constraints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/number.hpp"

namespace rehearse::inline planner {
namespace {

using Sense = Constraint::Sense;

constexpr double kGoodEnough = 1 + 1e-12;  // a limit that is met to the last digits is met

Constraint read_memory(const Value& value) {
  Constraint fits{.name = "memory", .metric = Metric::memory, .sense = Sense::fits};
  const std::string& shown = value.shown();
  if (shown == "fits") return fits;
  if (shown.ends_with('%')) {
    const auto percent = decimal_number(value.as_string().substr(0, shown.size() - 1));
    // 50 % is what the best estimate says.
    if (!percent || *percent < 50 || *percent >= 100)
      value.fail(
          fmt::format("expected a chance of fitting from 50% to below 100%; got \"{}\"", shown));
    fits.chance = *percent / 100;
    return fits;
  }
  if (shown.find_first_of("0123456789") == std::string::npos) {
    value.fail(
        fmt::format("expected fits, a chance such as 99%, or a size with its unit such as "
                    "70GiB; got \"{}\"",
                    shown));
  }
  if (const auto share = decimal_number(shown); share && *share >= 0.5 && *share < 1)
    value.fail(
        fmt::format("expected a chance in per cent, or a size with its unit; got \"{}\"", shown),
        fmt::format("{:g}%", 100 * *share));
  const Bytes most = value.as_bytes();
  if (most <= Bytes(0))
    value.fail("every training takes memory, and 0 B allow none",
               "memory: 70GiB, a chance such as 99%, or fits");
  return {.name = "memory", .metric = Metric::memory, .limit = most.value()};
}

double read_accuracy(const Value& value) {
  const double share = value.as_number();
  if (share > 0 && share < 1) return share;
  value.fail(
      fmt::format("expected a share between 0 and 1, such as 0.92; got \"{}\"", value.shown()));
}

/// `512`, or `{min: 256, max: 1024}`.
void read_global_batch(const Value& value, std::vector<Constraint>& constraints) {
  constexpr std::int64_t kMost = 1'000'000'000'000;
  const auto add = [&](Sense sense, const Value& limit) {
    constraints.push_back({.name = "global_batch",
                           .metric = Metric::global_batch,
                           .sense = sense,
                           .limit = static_cast<double>(limit.as_integer(1, kMost))});
  };
  if (!value.is_map()) {
    add(Sense::at_least, value);
    add(Sense::at_most, value);
    return;
  }
  Map map = value.as_map();
  const auto least = map.optional("min"), most = map.optional("max");
  if (!least && !most) value.fail("expected min, max or both");
  if (least) add(Sense::at_least, *least);
  if (most) add(Sense::at_most, *most);
  if (least && most && constraints.back().limit < constraints[constraints.size() - 2].limit)
    least->fail(
        fmt::format("min {} is above max {}: no batch is both", least->shown(), most->shown()),
        fmt::format("{{min: {}, max: {}}}", most->shown(), least->shown()));
  map.finish();
}

const std::map<std::string, Metric>& objectives() {
  static const std::map<std::string, Metric> all = {{"time", Metric::train_time},
                                                    {"cost", Metric::usd},
                                                    {"throughput", Metric::samples_per_s},
                                                    {"energy", Metric::energy},
                                                    {"co2", Metric::co2}};
  return all;
}

Metric read_objective_metric(const Value& value) {
  return objectives().at(value.as_choice({"time", "cost", "throughput", "energy", "co2"}));
}

std::string best_of(Metric metric) {
  return fmt::format("the {} {}", info(metric).more_is_better ? "highest" : "least",
                     info(metric).name);
}

}  // namespace

bool Constraint::holds(double value, double capacity) const {
  switch (sense) {
    case Sense::fits:
      return capacity <= 0 || value <= capacity;
    case Sense::at_most:
      return value <= limit * kGoodEnough;
    case Sense::at_least:
      return value * kGoodEnough >= limit;
  }
  return false;
}

double Constraint::limit_at(double capacity) const {
  return sense == Sense::fits ? capacity : limit;
}

std::string Constraint::words() const {
  if (sense == Sense::fits && chance > 0)
    return fmt::format("memory fits the GPU with at least {:g} %", 100 * chance);
  if (sense == Sense::fits) return "memory fits the GPU";
  const std::string most = sense == Sense::at_most ? "at most" : "at least";
  if (metric == Metric::gpus) return fmt::format("{} {}", most, format(metric, limit));
  return fmt::format("{} {} {}", info(metric).name, most, format(metric, limit));
}

std::string Objective::words() const {
  if (metrics.size() == 1) return best_of(metrics.front());
  std::string list;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const bool last = i + 1 == metrics.size();
    list += fmt::format("{}{}", i == 0 ? "" : last ? " and " : ", ", info(metrics[i]).name);
  }
  return "the Pareto front of " + list;
}

std::vector<Constraint> read_constraints(const std::optional<Value>& value) {
  if (!value) return {{.name = "memory", .metric = Metric::memory, .sense = Sense::fits}};
  Map map = value->as_map();
  std::vector<Constraint> constraints;
  const auto add = [&](const char* name, Metric metric, Sense sense, auto&& read) {
    if (const auto limit = map.optional(name)) {
      constraints.push_back(
          {.name = name, .metric = metric, .sense = sense, .limit = read(*limit)});
    }
  };
  const auto positive = [](const Value& limit) { return limit.as_positive_number(); };
  const auto seconds = [](const Value& limit) {
    const std::string& shown = limit.shown();
    if (limit.is_scalar() && decimal_number(shown))
      limit.fail(fmt::format("expected a time with its unit; got \"{}\"", shown),
                 fmt::format("{}h or {}d", shown, shown));
    return limit.as_seconds().value();
  };
  const auto count = [](const Value& limit) {
    return static_cast<double>(limit.as_integer(1, 100'000'000));
  };
  if (const auto memory = map.optional("memory")) constraints.push_back(read_memory(*memory));
  add("gpus", Metric::gpus, Sense::at_most, count);
  if (const auto batch = map.optional("global_batch")) read_global_batch(*batch, constraints);
  add("deadline", Metric::train_time, Sense::at_most, seconds);
  add("budget_usd", Metric::usd, Sense::at_most, positive);
  add("energy_kwh", Metric::energy, Sense::at_most, positive);
  add("co2_kg", Metric::co2, Sense::at_most, positive);
  add("samples_per_s", Metric::samples_per_s, Sense::at_least, positive);
  add("accuracy", Metric::accuracy, Sense::at_least, read_accuracy);
  map.finish();
  return constraints;
}

Objective read_objective(const Value& value) {
  if (!value.is_map()) return {{read_objective_metric(value)}};
  Map map = value.as_map();
  const Value list = map.require("pareto");
  Objective objective;
  for (const Value& one : list.as_list()) {
    objective.metrics.push_back(read_objective_metric(one));
    if (std::ranges::count(objective.metrics, objective.metrics.back()) > 1) {
      one.fail(fmt::format("\"{}\" stands here twice", one.shown()));
    }
  }
  if (objective.metrics.size() < 2) {
    list.fail("a Pareto front needs at least two objectives", "write objective: time");
  }
  map.finish();
  return objective;
}

}  // namespace rehearse::inline planner
