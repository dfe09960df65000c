#include "convergence/curve.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/number.hpp"
#include "config/fields.hpp"
#include "config/json/json_text.hpp"
#include "config/mistakes.hpp"
#include "convergence/curve_keys.hpp"
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

/// A whole number that a double holds; those of 32 bits have less.
Form<std::int64_t> whole() { return form::integer(0, kMost); }
Form<std::int64_t> small() { return form::integer(0, std::numeric_limits<std::int32_t>::max()); }

Form<std::optional<double>> loss() {
  return {type::number(), [](const Value& value) {
            return value.is_null() ? std::nullopt : std::optional(value.as_number());
          }};
}
Form<std::optional<std::uint64_t>> bound() {
  return {type::integer(0).in("updates"), [](const Value& value) {
            return value.is_null() ? std::nullopt
                                   : std::optional(static_cast<std::uint64_t>(whole().read(value)));
          }};
}

Fields<OuterSgd> outer_fields() {
  using O = OuterSgd;
  return {required("learning_rate", &O::learning_rate, form::positive(), "Its rate."),
          required("momentum", &O::momentum, form::not_negative(), "Its momentum."),
          required("nesterov", &O::nesterov, "Whether in Nesterov's form.")};
}

Fields<Mitigation> mitigation_fields() {
  using M = Mitigation;
  return {required("staleness_aware", &M::staleness_aware, "As `convergence`."),
          required("momentum_correction", &M::momentum_correction, "As `convergence`."),
          required("delay_compensation", &M::delay_compensation, form::not_negative(),
                   "As `convergence`."),
          required("staleness_bound", &M::staleness_bound, bound(), "SSP's bound; null: none."),
          required("backup_workers", &M::backup_workers, small(), "As `strategy.ps`."),
          required("warmup_rounds", &M::warmup_rounds, whole(), "As `strategy.ps`."),
          required("local_steps", &M::local_steps, small(), "As `strategy.ps`."),
          field("outer_optimizer", &M::outer, form::map(outer_fields()), "The outer step's SGD.")
              .otherwise("(none)")};
}

void read_histogram(Map& map, StalenessSummary& staleness) {
  Map histogram = map.require("histogram").as_map();
  for (const std::string& key : histogram.keys()) {
    const auto value = decimal_number(key);
    if (!value || *value < 0 || *value > kMostStaleness || *value != std::floor(*value))
      histogram.at_key(key).fail(fmt::format(
          "expected a staleness from 0 to {} as the key; got \"{}\"", kMostStaleness, key));
    staleness.histogram[static_cast<std::uint32_t>(*value)] =
        static_cast<std::uint64_t>(whole().read(histogram.require(key)));
  }
}

Fields<StalenessSummary> staleness_fields() {
  using S = StalenessSummary;
  return {required("mean", &S::mean, form::not_negative().in("updates"), "Mean."),
          required("p50", &S::p50, whole().in("updates"), "Median."),
          required("p99", &S::p99, whole().in("updates"), "99th percentile."),
          required("max", &S::max, whole().in("updates"), "The largest."),
          {{{"histogram", type::map(), "required", "Updates by staleness."}}, read_histogram}};
}

Fields<PastStaleness> past_fields() {
  using P = PastStaleness;
  return {required("mean", &P::mean, form::not_negative().in("updates"), "Mean so far."),
          required("recent", &P::recent, form::not_negative().in("updates"),
                   "Mean of the last updates.")};
}

Fields<CurvePoint> point_fields() {
  using P = CurvePoint;
  return {
      required("update", &P::update, whole(), "Updates so far."),
      required("time_s", &P::time, form::not_negative().in("s"), "Time so far."),
      required("samples", &P::samples, whole(), "Samples so far."),
      required("train_loss", &P::train_loss, loss(), "Loss; null: not finite."),
      required("test_loss", &P::test_loss, loss(), "Loss; null: not finite."),
      required("test_accuracy", &P::test_accuracy, form::not_negative().in("share"), "Accuracy."),
      field("staleness", &P::staleness, form::map(past_fields()), "Staleness so far.")};
}

/// No gradient misses more updates than there were. Before the first one there is no staleness.
void check_staleness(const Value& value, double staleness, std::uint64_t update) {
  if (update > 0 && staleness > static_cast<double>(update))
    value.fail(fmt::format("{} updates were made until then; got {}", update, value.shown()));
  if (staleness > kMostStaleness)
    value.fail(fmt::format("expected at most {}; got {}", kMostStaleness, value.shown()));
}

void check_point(Map& map, CurvePoint& point) {
  if (point.test_accuracy > 1) map.require("test_accuracy").fail("expected a share from 0 to 1");
  if (!point.staleness) return;
  Map past = map.require("staleness").as_map();
  check_staleness(past.require("mean"), point.staleness->mean, point.update);
  check_staleness(past.require("recent"), point.staleness->recent, point.update);
}

void check_order(const Value& item, const std::vector<CurvePoint>& points) {
  if (points.size() > 1 && points.back().update <= points[points.size() - 2].update)
    item.fail("expected points in the order of their updates");
}

std::string stretches_text(const Curve& curve) {
  Json list = Json::array();
  for (const TrainingStretch& one : curve.stretches)
    list.push_back({{"samples", one.samples},
                    {"learning_rate", one.learning_rate},
                    {"samples_per_update", one.samples_per_update},
                    {"staleness", one.staleness}});
  return json_text(list);
}

Fields<TrainingStretch> stretch_fields() {
  using S = TrainingStretch;
  return {required("samples", &S::samples, form::positive(), "Samples when it ends."),
          required("learning_rate", &S::learning_rate, form::positive(), "Its learning rate."),
          required("samples_per_update", &S::samples_per_update, form::positive(),
                   "Samples of an update."),
          required("staleness", &S::staleness, form::not_negative(), "Mean staleness.")};
}

void check_stretches(const Value& item, const std::vector<TrainingStretch>& stretches) {
  const std::size_t count = stretches.size();
  if (count > 1 && stretches[count - 1].samples <= stretches[count - 2].samples)
    item.fail("expected stretches in the order of their samples");
}

Fields<Curve> curve_fields() {
  using C = Curve;
  return {
      {{{"schema", type::choice({kSchema}), "required", "Version of the format."}},
       [](Map&, C&) {}},
      required("source", &C::source, form::one_of({"replay", "real"}),
               "Replayed, or trained for real."),
      required("model", &C::model, "The network."),
      required("dataset", &C::dataset, "The data set."),
      required("train_samples", &C::train_samples, whole(), "Samples that train."),
      required("test_samples", &C::test_samples, whole(), "Samples that test."),
      required("workers", &C::workers, small(), "Workers."),
      required("batch", &C::batch, whole().in("samples"), "Batch of a worker."),
      required("learning_rate", &C::learning_rate, form::not_negative(), "Learning rate."),
      required("momentum", &C::momentum, form::not_negative(), "Momentum."),
      required("weight_decay", &C::weight_decay, form::not_negative(), "Weight decay."),
      required("seed", &C::seed, whole(), "Seed."),
      required("updates", &C::updates, whole(), "Updates that were applied."),
      required("diverged", &C::diverged, "Whether it failed to train."),
      required("mitigation", &C::mitigation, form::map(mitigation_fields()),
               "What was done against staleness."),
      required("staleness", &C::staleness, form::map(staleness_fields()),
               "Staleness of all updates."),
      silent("stretches", &C::stretches, form::list(form::map(stretch_fields()), check_stretches),
             "Parts of a training whose learning rate or protocol changes, in order."),
      required("points", &C::points,
               form::list(form::map(point_fields(), check_point), check_order),
               "Looks at the network, in order.")};
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
    text += fmt::format("  \"{}\": {},\n", key, json_text(value));
  if (!curve.stretches.empty())
    text += fmt::format("  \"stretches\": {},\n", stretches_text(curve));
  text += "  \"points\": [";
  for (const CurvePoint& point : curve.points) {
    text += fmt::format("{}\n    {}", &point == curve.points.data() ? "" : ",",
                        json_text(point_object(point)));
  }
  return text + "\n  ]\n}\n";
}

std::vector<Key> curve_keys() { return keys_of(curve_fields()); }

Curve read_curve(const std::filesystem::path& file) {
  const auto document = Document::load(file);
  Map map = document->root().as_map();
  const SoundPart part;
  map.require("schema").as_choice({kSchema});
  part.check();  // another kind of file has other keys
  const Curve curve = read_fields(map, curve_fields());
  if (curve.points.empty()) map.require("points").fail("expected a point at least");
  map.finish();
  part.check();
  return curve;
}

}  // namespace rehearse::inline convergence
