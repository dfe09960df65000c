#include "convergence/curve.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/number.hpp"
#include "config/document.hpp"
#include "config/mistakes.hpp"
#include "convergence/staleness_bound.hpp"

namespace rehearse::inline convergence {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "rehearse.curve/1";
constexpr std::int64_t kMost = std::int64_t{1} << 53;

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json mitigation_object(const Mitigation& by) {
  Json object = {
      {"staleness_aware", by.staleness_aware},
      {"momentum_correction", by.momentum_correction},
      {"delay_compensation", by.delay_compensation},
      {"staleness_bound", by.staleness_bound ? Json(*by.staleness_bound) : Json(nullptr)},
      {"backup_workers", by.backup_workers},
      {"warmup_rounds", by.warmup_rounds},
      {"local_steps", by.local_steps}};
  if (by.outer)
    object["outer_optimizer"] = {{"learning_rate", by.outer->learning_rate},
                                 {"momentum", by.outer->momentum},
                                 {"nesterov", by.outer->nesterov}};
  return object;
}

Json staleness_object(const StalenessSummary& staleness) {
  Json histogram = Json::object();
  for (const auto& [value, updates] : staleness.histogram)
    histogram[std::to_string(value)] = updates;
  return {{"mean", staleness.mean},
          {"p50", staleness.p50},
          {"p99", staleness.p99},
          {"max", staleness.max},
          {"histogram", histogram}};
}

Json point_object(const CurvePoint& point) {
  Json object = {{"update", point.update},
                 {"time_s", point.time.value()},
                 {"samples", point.samples},
                 {"train_loss", or_null(point.train_loss)},
                 {"test_loss", or_null(point.test_loss)},
                 {"test_accuracy", point.test_accuracy}};
  if (point.staleness)
    object["staleness"] = {{"mean", point.staleness->mean}, {"recent", point.staleness->recent}};
  return object;
}

std::uint64_t whole(const Value& value) {
  return static_cast<std::uint64_t>(value.as_integer(0, kMost));
}

std::uint32_t small(const Value& value) {
  return static_cast<std::uint32_t>(value.as_integer(0, std::numeric_limits<std::int32_t>::max()));
}

std::optional<double> number_or_null(const Value& value) {
  if (value.is_null()) return std::nullopt;
  return value.as_number();
}

OuterSgd read_outer(Map map) {
  OuterSgd outer;
  outer.learning_rate = map.require("learning_rate").as_positive_number();
  outer.momentum = map.require("momentum").as_non_negative_number();
  outer.nesterov = map.require("nesterov").as_bool();
  map.finish();
  return outer;
}

Mitigation read_mitigation(Map map) {
  Mitigation by;
  by.staleness_aware = map.require("staleness_aware").as_bool();
  by.momentum_correction = map.require("momentum_correction").as_bool();
  by.delay_compensation = map.require("delay_compensation").as_non_negative_number();
  const Value bound = map.require("staleness_bound");
  if (!bound.is_null()) by.staleness_bound = whole(bound);
  by.backup_workers = small(map.require("backup_workers"));
  by.warmup_rounds = whole(map.require("warmup_rounds"));
  by.local_steps = small(map.require("local_steps"));
  if (const auto outer = map.optional("outer_optimizer")) by.outer = read_outer(outer->as_map());
  map.finish();
  return by;
}

StalenessSummary read_staleness(Map map) {
  StalenessSummary staleness;
  staleness.mean = map.require("mean").as_non_negative_number();
  staleness.p50 = whole(map.require("p50"));
  staleness.p99 = whole(map.require("p99"));
  staleness.max = whole(map.require("max"));
  Map histogram = map.require("histogram").as_map();
  for (const std::string& key : histogram.keys()) {
    const auto value = decimal_number(key);
    if (!value || *value < 0 || *value > kMostStaleness || *value != std::floor(*value))
      histogram.at_key(key).fail(fmt::format(
          "expected a staleness from 0 to {} as the key; got \"{}\"", kMostStaleness, key));
    staleness.histogram[static_cast<std::uint32_t>(*value)] = whole(histogram.require(key));
  }
  map.finish();
  return staleness;
}

/// No gradient misses more updates than there were. Before the first one there is no staleness.
double staleness_by(const Value& value, std::uint64_t update) {
  const double staleness = value.as_non_negative_number();
  if (update > 0 && staleness > static_cast<double>(update))
    value.fail(fmt::format("{} updates were made until then; got {}", update, value.shown()));
  if (staleness > kMostStaleness)
    value.fail(fmt::format("expected at most {}; got {}", kMostStaleness, value.shown()));
  return staleness;
}

PastStaleness read_past(Map map, std::uint64_t update) {
  const PastStaleness past{.mean = staleness_by(map.require("mean"), update),
                           .recent = staleness_by(map.require("recent"), update)};
  map.finish();
  return past;
}

CurvePoint read_point(Map map) {
  CurvePoint point;
  point.update = whole(map.require("update"));
  point.time = Seconds(map.require("time_s").as_non_negative_number());
  point.samples = whole(map.require("samples"));
  point.train_loss = number_or_null(map.require("train_loss"));
  point.test_loss = number_or_null(map.require("test_loss"));
  const Value accuracy = map.require("test_accuracy");
  point.test_accuracy = accuracy.as_non_negative_number();
  if (point.test_accuracy > 1) accuracy.fail("expected a share from 0 to 1");
  if (const auto staleness = map.optional("staleness"))
    point.staleness = read_past(staleness->as_map(), point.update);
  map.finish();
  return point;
}

std::vector<CurvePoint> read_points(const Value& list) {
  std::vector<CurvePoint> points;
  for (const Value& one : list.as_list()) {
    points.push_back(read_point(one.as_map()));
    if (points.size() > 1 && points.back().update <= points[points.size() - 2].update)
      one.fail("expected points in the order of their updates");
  }
  if (points.empty()) list.fail("expected a point at least");
  return points;
}

std::string words_of(const std::optional<OuterSgd>& outer) {
  if (!outer) return "none";
  return fmt::format("SGD of {}, {}momentum {}", outer->learning_rate,
                     outer->nesterov ? "Nesterov's " : "", outer->momentum);
}

}  // namespace

void add_staleness(const UpdateLog& log, std::vector<CurvePoint>& points) {
  PastStalenessMeter meter;
  auto row = log.begin();
  for (CurvePoint& point : points) {
    for (; row != log.end() && row->version_applied < point.update; ++row)
      meter.add(static_cast<double>(row->staleness()));
    if (point.update > 0) point.staleness = meter.past();
  }
}

std::optional<TrainingDifference> training_difference(const Curve& one, const Curve& other) {
  std::optional<TrainingDifference> first;
  const auto compare = [&](const char* what, const auto& of_one, const auto& of_other) {
    if (!first && of_one != of_other)
      first = TrainingDifference{what, fmt::format("{}", of_one), fmt::format("{}", of_other)};
  };
  compare("model", one.model, other.model);
  compare("data set", one.dataset, other.dataset);
  compare("number of training samples", one.train_samples, other.train_samples);
  compare("number of test samples", one.test_samples, other.test_samples);
  compare("number of workers", one.workers, other.workers);
  compare("batch", one.batch, other.batch);
  compare("learning rate", one.learning_rate, other.learning_rate);
  compare("momentum", one.momentum, other.momentum);
  compare("weight decay", one.weight_decay, other.weight_decay);
  const Mitigation &by = one.mitigation, &others = other.mitigation;
  compare("number of local steps", by.local_steps, others.local_steps);
  compare("outer optimizer", words_of(by.outer), words_of(others.outer));
  compare("delay compensation", by.delay_compensation, others.delay_compensation);
  compare("staleness-aware rate", by.staleness_aware, others.staleness_aware);
  compare("momentum correction", by.momentum_correction, others.momentum_correction);
  return first;
}

std::string to_json(const Curve& curve) {
  const Json head = {{"schema", kSchema},
                     {"source", curve.source},
                     {"model", curve.model},
                     {"dataset", curve.dataset},
                     {"train_samples", curve.train_samples},
                     {"test_samples", curve.test_samples},
                     {"workers", curve.workers},
                     {"batch", curve.batch},
                     {"learning_rate", curve.learning_rate},
                     {"momentum", curve.momentum},
                     {"weight_decay", curve.weight_decay},
                     {"mitigation", mitigation_object(curve.mitigation)},
                     {"seed", curve.seed},
                     {"staleness", staleness_object(curve.staleness)},
                     {"updates", curve.updates},
                     {"diverged", curve.diverged}};
  std::string text = "{\n";
  for (const auto& [key, value] : head.items())
    text += fmt::format("  \"{}\": {},\n", key, value.dump());
  text += "  \"points\": [";
  for (const CurvePoint& point : curve.points) {
    text += fmt::format("{}\n    {}", &point == curve.points.data() ? "" : ",",
                        point_object(point).dump());
  }
  return text + "\n  ]\n}\n";
}

Curve read_curve(const std::filesystem::path& file) {
  const auto document = Document::load(file);
  Map map = document->root().as_map();
  const SoundPart part;
  map.require("schema").as_choice({kSchema});
  part.check();  // another kind of file has other keys
  Curve curve;
  curve.source = map.require("source").as_choice({"replay", "real"});
  curve.model = map.require("model").as_string();
  curve.dataset = map.require("dataset").as_string();
  curve.train_samples = whole(map.require("train_samples"));
  curve.test_samples = whole(map.require("test_samples"));
  curve.workers = small(map.require("workers"));
  curve.batch = whole(map.require("batch"));
  curve.learning_rate = map.require("learning_rate").as_non_negative_number();
  curve.momentum = map.require("momentum").as_non_negative_number();
  curve.weight_decay = map.require("weight_decay").as_non_negative_number();
  curve.mitigation = read_mitigation(map.require("mitigation").as_map());
  curve.seed = whole(map.require("seed"));
  curve.staleness = read_staleness(map.require("staleness").as_map());
  curve.updates = whole(map.require("updates"));
  curve.diverged = map.require("diverged").as_bool();
  curve.points = read_points(map.require("points"));
  map.finish();
  part.check();
  return curve;
}

}  // namespace rehearse::inline convergence
