// Measurements and two of them side by side as JSON, by lists of fields, which are its schemas.
#include <optional>
#include <tuple>

#include "config/json/json_record.hpp"
#include "config/json/json_text.hpp"
#include "measured/measured.hpp"

namespace rehearse::inline measured {
namespace {

std::string answer_of(const MeasuredFolder& measured) { return answer(measured); }

/// The fields that say whose measurements these are.
constexpr auto header() {
  using One = MeasuredFolder;
  return std::tuple(derived<One>("answer", answer_of), field("name", &One::name),
                    field("command", &One::command), field("device", &One::device),
                    field("libtorch", &One::library), field("model", &One::model),
                    field("precision", &One::precision), field("batch", &One::batch));
}

/// One of two sides, whose parts stand beside the other's.
struct SidePart : MeasuredFolder {};
constexpr auto json_fields(const SidePart*) { return header(); }

std::optional<Seconds> time_of(const MeasuredChange& one, const MeasuredPart& part) {
  return one.both || part.time > Seconds(0) ? std::optional(part.time) : std::nullopt;
}

}  // namespace

constexpr auto json_fields(const MeasuredPart*) {
  using One = MeasuredPart;
  return std::tuple(field("kind", &One::kind), field("name", &One::name),
                    field("time_s", &One::time), field("spread", &One::spread),
                    field("in_a_step", &One::in_a_step));
}

constexpr auto json_fields(const MeasuredFolder*) {
  using One = MeasuredFolder;
  return std::tuple_cat(std::tuple(constant<One>("schema", "rehearse.measured/1")), header(),
                        std::tuple(field("parts", &One::parts)));
}

constexpr auto json_fields(const MeasuredChange*) {
  using One = MeasuredChange;
  return std::tuple(
      derived<One>("kind", [](const One& one) { return one.first.kind; }),
      derived<One>("name", [](const One& one) { return one.first.name; }),
      derived<One>("first_s", [](const One& one) { return time_of(one, one.first); }),
      derived<One>("second_s", [](const One& one) { return time_of(one, one.second); }),
      derived<One>("change_s", [](const One& one) { return one.change(); }),
      derived<One>("first_spread", [](const One& one) { return one.first.spread; }),
      derived<One>("second_spread", [](const One& one) { return one.second.spread; }),
      derived<One>("beyond_spread", [](const One& one) { return one.is_beyond_spread(); }));
}

constexpr auto json_fields(const MeasuredComparison*) {
  using One = MeasuredComparison;
  return std::tuple(constant<One>("schema", "rehearse.measured_comparison/1"),
                    derived<One>("answer", [](const One& one) { return answer(one); }),
                    derived<One>("first", [](const One& one) { return SidePart{one.first}; }),
                    derived<One>("second", [](const One& one) { return SidePart{one.second}; }),
                    field("changes", &One::changes));
}

std::string to_json(const MeasuredFolder& measured) {
  return json_text(to_json_value(measured), 2);
}

std::string to_json(const MeasuredComparison& both) { return json_text(to_json_value(both), 2); }

OrderedJson measured_schema() {
  return titled_schema("What was measured (rehearse.measured/1)", json_schema<MeasuredFolder>());
}

OrderedJson measured_comparison_schema() {
  return titled_schema("Two measurements side by side (rehearse.measured_comparison/1)",
                       json_schema<MeasuredComparison>());
}

}  // namespace rehearse::inline measured
