#include "view/comparison.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/memory_verdict.hpp"
#include "report/prediction_interval.hpp"
#include "report/training_kind.hpp"
#include "view/json_view.hpp"

namespace rehearse::inline view {
namespace {

using Json = nlohmann::ordered_json;

struct FigureKey {
  const char *key, *name;
  FigureUnit unit;
  enum class Kind {
    neither,
    as_time,
    as_rate,
    as_training
  } kind;  ///< in proportion to the step, to its inverse, or to the step and the training's length
};

/// People compare these first; each side may lack some.
constexpr std::array kFigures = {
    FigureKey{"step_time_s", "step time", FigureUnit::seconds, FigureKey::Kind::as_time},
    FigureKey{"samples_per_s", "samples/s", FigureUnit::rate, FigureKey::Kind::as_rate},
    FigureKey{"tokens_per_s", "tokens/s", FigureUnit::rate, FigureKey::Kind::as_rate},
    FigureKey{"tokens_per_s_per_gpu", "tokens/s a GPU", FigureUnit::rate, FigureKey::Kind::as_rate},
    FigureKey{"mfu", "MFU", FigureUnit::share, FigureKey::Kind::as_rate},
    FigureKey{"train_time_s", "training", FigureUnit::seconds, FigureKey::Kind::as_training},
    FigureKey{"cost.gpu_hours", "GPU hours", FigureUnit::number, FigureKey::Kind::as_training},
    FigureKey{"cost.usd", "USD", FigureUnit::usd, FigureKey::Kind::as_training},
    FigureKey{"cost.energy_kwh", "energy", FigureUnit::number, FigureKey::Kind::neither},
    FigureKey{"memory.used_bytes", "memory", FigureUnit::bytes, FigureKey::Kind::neither},
    FigureKey{"staleness.mean", "staleness", FigureUnit::number, FigureKey::Kind::neither},
    FigureKey{"accuracy.accuracy", "accuracy", FigureUnit::share, FigureKey::Kind::neither}};

std::optional<double> member(const Json& report, std::string key) {
  std::ranges::replace(key, '.', '/');
  const Json::json_pointer path("/" + key);
  if (!report.contains(path) || !report.at(path).is_number()) return std::nullopt;
  return report.at(path).get<double>();
}

/// 90 %; of memory, of the bytes needed, which decide the verdict.
std::optional<Ends<double>> ends_of(const Report& report, const std::string& key) {
  if (key != "memory.used_bytes") return interval_of(report, key);
  const std::optional<MemoryFit> fit = memory_fit(report);
  if (!fit || !fit->interval) return std::nullopt;
  return Ends<double>{fit->interval->low.value(), fit->interval->high.value()};
}

/// The interval of ln(second over first) where neither side says anything of the other; nothing
/// where an interval is not known.
std::optional<Ends<double>> apart(const Comparison& both, const std::string& key, double first,
                                  double second) {
  const auto a = ends_of(both.first.report, key), b = ends_of(both.second.report, key);
  if (!a || !b || a->low <= 0 || b->low <= 0) return std::nullopt;
  return Ends<double>{-std::hypot(std::log(a->high / first), std::log(b->low / second)),
                      std::hypot(std::log(a->low / first), std::log(b->high / second))};
}

FigurePair figure_of(const Comparison& both, const FigureKey& which, const Json& first,
                     const Json& second) {
  using enum FigureKey::Kind;
  FigurePair pair{.key = which.key,
                  .name = which.name,
                  .unit = which.unit,
                  .first = member(first, which.key),
                  .second = member(second, which.key)};
  if (!pair.first || !pair.second || *pair.first <= 0 || *pair.second <= 0) return pair;
  pair.ratio = *pair.second / *pair.first;
  std::optional<Ends<double>> ends;
  if (both.common_errors && which.kind == as_training) {
    ends = together(with(both.first.shifts, loss_shifts(both.first.report.loss)),
                    with(both.second.shifts, loss_shifts(both.second.report.loss)));
  } else if (both.common_errors && which.kind != neither) {
    ends = together(both.first.shifts, both.second.shifts);
    if (which.kind == as_rate) ends = Ends<double>{-ends->high, -ends->low};
  } else {
    ends = apart(both, which.key, *pair.first, *pair.second);
  }
  if (ends)
    pair.interval =
        Ends<double>{*pair.ratio * std::exp(ends->low), *pair.ratio * std::exp(ends->high)};
  return pair;
}

/// Settings by their keys where both sides have some in common; else what the reports say of them.
std::vector<InputDifference> inputs_of(const Compared& first, const Compared& second) {
  std::map<std::string, std::pair<std::string, std::string>> all;
  for (const auto& [key, value] : first.settings) all[key].first = value;
  for (const auto& [key, value] : second.settings) all[key].second = value;
  std::vector<InputDifference> list;
  const auto add = [&](const std::string& key, const std::string& a, const std::string& b) {
    if (a != b) list.push_back({key, a, b});
  };
  const bool comparable = std::ranges::any_of(
      all, [](const auto& one) { return !one.second.first.empty() && !one.second.second.empty(); });
  if (comparable)
    for (const auto& [key, values] : all) add(key, values.first, values.second);
  if (!list.empty()) return list;
  const Report &a = first.report, &b = second.report;
  add("model", a.model, b.model);
  add("precision", a.precision, b.precision);
  add("strategy", a.strategy, b.strategy);
  add("cluster", a.cluster, b.cluster);
  add("framework", a.framework.title, b.framework.title);
  add("GPUs", std::to_string(a.ranks), std::to_string(b.ranks));
  add("nodes", std::to_string(a.nodes), std::to_string(b.nodes));
  add("batch per GPU", std::to_string(a.batch_per_gpu), std::to_string(b.batch_per_gpu));
  add("samples per step", std::to_string(a.global_batch), std::to_string(b.global_batch));
  return list;
}

std::vector<PartPair> step_parts(const Breakdown& first, const Breakdown& second, double scale) {
  const auto pair = [&](const char* name, Seconds a, Seconds b) {
    return PartPair{name, a.value(), b.value() * scale};
  };
  return {pair("compute", first.compute, second.compute),
          pair("exposed communication", first.exposed_communication, second.exposed_communication),
          pair("idle", first.idle, second.idle)};
}

std::vector<PartPair> collective_parts(const Comparison& both) {
  std::map<std::string, PartPair> kinds;
  const auto add = [&](const Report& report, double PartPair::*side, double scale) {
    for (const CollectiveReport& one : report.collectives) {
      PartPair& pair = kinds[one.kind];
      pair.name = one.kind;
      pair.*side += scale * one.time.value() * static_cast<double>(one.count);
    }
  };
  add(both.first.report, &PartPair::first, 1);
  add(both.second.report, &PartPair::second, both.scale);
  std::vector<PartPair> list;
  for (auto& [kind, pair] : kinds) list.push_back(std::move(pair));
  return list;
}

std::vector<PartPair> memory_parts(const Report& first, const Report& second) {
  if (!first.memory || !second.memory) return {};
  const MemoryReport &a = *first.memory, &b = *second.memory;
  std::vector<PartPair> list;
  const auto add = [&](std::string name, Bytes one, Bytes other) {
    std::ranges::replace(name, '_', ' ');
    if (one > Bytes(0) || other > Bytes(0))
      list.push_back({std::move(name), one.value(), other.value()});
  };
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind)
    add(to_string(static_cast<MemoryKind>(kind)), a.at_peak.by_kind[kind], b.at_peak.by_kind[kind]);
  add("reserved more", a.fragmentation(), b.fragmentation());
  add("communicators", a.communicators, b.communicators);
  return list;
}

}  // namespace

Comparison compare(Compared first, Compared second) {
  Comparison both{.first = std::move(first), .second = std::move(second)};
  const Report &a = both.first.report, &b = both.second.report;
  both.common_errors = !both.first.shifts.empty() && !both.second.shifts.empty();
  if (a.global_batch > 0 && b.global_batch > 0)
    both.scale = static_cast<double>(a.global_batch) / static_cast<double>(b.global_batch);
  both.inputs = inputs_of(both.first, both.second);
  const Json one = json_view(a), other = json_view(b);
  for (const FigureKey& which : kFigures) {
    FigurePair pair = figure_of(both, which, one, other);
    if (pair.first || pair.second) both.figures.push_back(std::move(pair));
  }
  both.step = step_parts(a.breakdown, b.breakdown, both.scale);
  both.collectives = collective_parts(both);
  both.memory = memory_parts(a, b);
  return both;
}

}  // namespace rehearse::inline view
