#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "config/json/json_record.hpp"
#include "config/json/json_text.hpp"
#include "convergence/pace.hpp"
#include "report/report.hpp"

namespace rehearse::inline base {

constexpr auto json_fields(const Estimate<double>*) {
  return std::tuple(field("value", &Estimate<double>::value), field("low", &Estimate<double>::low),
                    field("high", &Estimate<double>::high));
}

}  // namespace rehearse::inline base

namespace rehearse::inline convergence {

constexpr std::size_t json_count(const LossCost::Asked*) { return 3; }
constexpr const char* to_string(LossCost::Asked asked) {
  return asked == LossCost::Asked::like     ? "like"
         : asked == LossCost::Asked::target ? "target"
                                            : "length";
}

constexpr auto json_fields(const Pace*) {
  return std::tuple(field("samples_per_s", &Pace::samples_per_s),
                    field("samples_per_update", &Pace::samples_per_update),
                    field("applied_s", &Pace::applied));
}

constexpr auto json_fields(const TokenCost*) {
  return std::tuple(field("name", &TokenCost::name), field("ratio", &TokenCost::ratio),
                    field("source", &TokenCost::source));
}

constexpr auto json_fields(const LossCost*) {
  return std::tuple(field("asked", &LossCost::asked), field("method", &LossCost::method),
                    field("like_tokens", &LossCost::like_tokens), field("unit", &LossCost::unit),
                    field("amount", &LossCost::amount), field("parts", &LossCost::parts),
                    field("line", &LossCost::line));
}

}  // namespace rehearse::inline convergence

/// Forms of single values, and entries of more than one member, of which report_fields.hpp is made.
namespace rehearse::inline view {

// --- forms of single values ----------------------------------------------------------------------

/// A number in a unit of 1e9 of the quantity's own.
template <class Value>
struct InGiga {
  static OrderedJson write(Value value) { return value.value() / 1e9; }
  static Value read(const JsonPlace& place) { return Value(place.number() * 1e9); }
  static OrderedJson schema() { return json_schema<Value>(); }
};

/// A size as a number with a fraction.
struct AsNumber {
  static OrderedJson write(Bytes size) { return size.value(); }
  static Bytes read(const JsonPlace& place) { return Bytes(place.number()); }
  static OrderedJson schema() { return json_schema<Bytes>(); }
};

/// Null stands for the value that says nothing: 0, an empty text.
template <class Value>
struct NullIfNone {
  static OrderedJson write(const Value& value) {
    return value == Value() ? OrderedJson() : to_json_value(value);
  }
  static Value read(const JsonPlace& place) {
    return place.or_null(from_json_value<Value>).value_or(Value());
  }
  static OrderedJson schema() { return or_null(json_schema<Value>()); }
};

struct HistogramForm {
  static OrderedJson write(const StalenessHistogram& histogram) {
    OrderedJson json = OrderedJson::object();
    for (const auto& [value, updates] : histogram) json[std::to_string(value)] = updates;
    return json;
  }
  static StalenessHistogram read(const JsonPlace& place) {
    StalenessHistogram all;
    for (const auto& [key, updates] : place.entries()) {
      std::uint32_t staleness = 0;
      const char* const last = key.data() + key.size();
      if (const auto read = std::from_chars(key.data(), last, staleness);
          read.ptr != last || read.ec != std::errc())
        updates.fail("a staleness as the key", json_text(nlohmann::json(key)));
      all[staleness] = updates.whole<std::uint64_t>();
    }
    return all;
  }
  static OrderedJson schema() {
    return {{"type", "object"}, {"additionalProperties", json_schema<std::uint64_t>()}};
  }
};

struct IntervalsForm {
  static OrderedJson write(const std::vector<KeyBounds>& all) {
    OrderedJson json = OrderedJson::object();
    for (const KeyBounds& one : all) json[one.key] = to_json_value(one.bounds);
    return json;
  }
  static std::vector<KeyBounds> read(const JsonPlace& place) {
    std::vector<KeyBounds> all;
    for (const auto& [key, interval] : place.entries())
      all.push_back({.key = key, .bounds = from_json_value<Ends<double>>(interval)});
    return all;
  }
  static OrderedJson schema() { return json_schema<std::map<std::string, Ends<double>>>(); }
};

/// Time by the axis of a mesh: {"tensor_s": 0.1}.
struct ByAxis {
  static OrderedJson write(const std::map<MeshAxis, Seconds>& times) {
    OrderedJson json = OrderedJson::object();
    for (const auto& [axis, time] : times) json[to_string(axis) + "_s"] = time.value();
    return json;
  }
  static std::map<MeshAxis, Seconds> read(const JsonPlace& place) {
    std::map<MeshAxis, Seconds> times;
    for (std::size_t i = 0; i < kAxes; ++i) {
      const auto axis = static_cast<MeshAxis>(i);
      if (const auto time = place.find(to_string(axis) + "_s"))
        times[axis] = Seconds(time->number());
    }
    return times;
  }
  static OrderedJson schema() { return json_schema<std::map<std::string, double>>(); }
};

/// Shares by what speaks for them: {"fitted": 0.9}.
struct ByGround {
  using Shares = std::vector<std::pair<CostGround, double>>;

  static OrderedJson write(const Shares& shares) {
    OrderedJson json = OrderedJson::object();
    for (const auto& [ground, share] : shares) json[to_string(ground)] = share;
    return json;
  }
  static Shares read(const JsonPlace& place) {
    Shares shares;
    for (const auto& [ground, share] : place.entries())
      shares.emplace_back(share.named<CostGround>(ground, kCostGrounds), share.number());
    return shares;
  }
  static OrderedJson schema() { return json_schema<std::map<std::string, double>>(); }
};

/// Bytes by kind: {"parameters_bytes": 1024}.
struct ByKind {
  static OrderedJson write(const MemoryUse& use) {
    OrderedJson json = OrderedJson::object();
    for (std::size_t kind = 0; kind < kMemoryKinds; ++kind)
      json[to_string(static_cast<MemoryKind>(kind)) + "_bytes"] = to_json_value(use.by_kind[kind]);
    return json;
  }
  static MemoryUse read(const JsonPlace& place) {
    MemoryUse use;
    for (std::size_t kind = 0; kind < kMemoryKinds; ++kind)
      use.by_kind[kind] =
          Bytes(place.at(to_string(static_cast<MemoryKind>(kind)) + "_bytes").number());
    return use;
  }
  static OrderedJson schema() { return json_schema<std::map<std::string, double>>(); }
};

// --- entries of more than one member -------------------------------------------------------------

/// Ends under a key each.
template <class Record, class Value>
struct EndsUnder {
  const char *low, *high;
  Ends<Value> Record::*member;

  void write(const Record& record, OrderedJson& json) const {
    json[low] = to_json_value((record.*member).low);
    json[high] = to_json_value((record.*member).high);
  }
  void read(const JsonPlace& place, Record& record) const {
    record.*
        member = {from_json_value<Value>(place.at(low)), from_json_value<Value>(place.at(high))};
  }
  void describe(JsonKeys& keys) const {
    keys.add(low, json_schema<Value>());
    keys.add(high, json_schema<Value>());
  }
};

/// One of two texts.
template <class Record>
struct OneOfTwo {
  const char* key;
  bool Record::*member;
  const char *yes, *no;

  void write(const Record& record, OrderedJson& json) const {
    json[key] = record.*member ? yes : no;
  }
  void read(const JsonPlace& place, Record& record) const {
    const std::string found = place.at(key).text();
    if (found != yes && found != no) place.at(key).fail(std::string("one of ") + yes + ", " + no);
    record.*member = found == yes;
  }
  void describe(JsonKeys& keys) const { keys.add(key, {{"enum", OrderedJson::array({yes, no})}}); }
};

/// A time that only failures give a meaning; null for what never happens.
struct TimeOfFailures {
  const char* key;
  Seconds GoodputReport::*member;

  void write(const GoodputReport& goodput, OrderedJson& json) const {
    const double time = (goodput.*member).value();
    json[key] = goodput.trainings > 0 && std::isfinite(time) ? OrderedJson(time) : OrderedJson();
  }
  void read(const JsonPlace& place, GoodputReport& goodput) const {
    const double time =
        place.at(key).number_or_null().value_or(std::numeric_limits<double>::infinity());
    const bool fails = place.at("trainings").whole<std::int64_t>() > 0;
    goodput.*member = Seconds(fails ? time : 0);
  }
  void describe(JsonKeys& keys) const { keys.add(key, or_null(json_schema<Seconds>())); }
};

/// The part of a family's time at sizes that were measured, as a share of it.
struct WithinMeasured {
  static constexpr const char* kKey = "within_measured";

  void write(const FamilyReport& family, OrderedJson& json) const {
    const Seconds whole = family.total();
    json[kKey] = whole > Seconds(0) ? std::min(1.0, family.within / whole) : 0.0;
  }
  void read(const JsonPlace& place, FamilyReport& family) const {
    family.within = place.at(kKey).number() * family.total();
  }
  void describe(JsonKeys& keys) const { keys.add(kKey, json_schema<double>()); }
};

/// Whether it fits; null where the GPU's memory is not known.
struct Fits {
  void write(const MemoryReport& memory, OrderedJson& json) const {
    json["fits"] = memory.capacity == Bytes(0) ? OrderedJson() : OrderedJson(memory.fits);
  }
  void read(const JsonPlace& place, MemoryReport& memory) const {
    memory.fits = place.at("fits").or_null(from_json_value<bool>).value_or(true);
  }
  void describe(JsonKeys& keys) const {
    OrderedJson schema = or_null(json_schema<bool>());
    schema["description"] =
        "The best estimate alone fits. `verdict` counts what it may be off by: it may be at_risk "
        "where this is true.";
    keys.add("fits", std::move(schema));
  }
};

}  // namespace rehearse::inline view
