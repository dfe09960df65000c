#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/count.hpp"
#include "config/json/json_record.hpp"
#include "config/json/json_text.hpp"
#include "report/memory_verdict.hpp"
#include "report/training_kind.hpp"
#include "view/answer.hpp"
#include "view/comparison.hpp"
#include "view/cost_views.hpp"
#include "view/json_view.hpp"
#include "view/table.hpp"

namespace rehearse::inline view {
namespace {

constexpr double kSame = 0.005;   ///< figures that differ by less are called the same
constexpr double kTimes = 2;      ///< from here on "times", not percent
constexpr double kLeast = 0.005;  ///< of a step; less is not told
constexpr int kNarrowestTable = 60, kWidestTable = 110;

std::string value_text(FigureUnit unit, double value) {
  switch (unit) {
    case FigureUnit::seconds:
      return format(Seconds(value));
    case FigureUnit::bytes:
      return format(Bytes(value));
    case FigureUnit::rate:
      return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
    case FigureUnit::share:
      return percent(value);
    case FigureUnit::usd:
      return money(value);
    case FigureUnit::number:
      return fmt::format("{:.4g}", value);
  }
  return "";
}

bool is_large(double ratio) { return ratio >= kTimes || ratio <= 1 / kTimes; }

std::string ratio_text(double ratio, bool as_times) {
  if (as_times) return fmt::format("x {:.3g}", ratio);
  return fmt::format("{:+.1f} %", 100 * (ratio - 1));
}

/// Both ends as the ratio itself is written.
std::string interval_text(const FigurePair& pair) {
  if (!pair.interval || !pair.ratio) return "";
  const bool as_times = is_large(*pair.ratio);
  return fmt::format("{} to {}", ratio_text(pair.interval->low, as_times),
                     ratio_text(pair.interval->high, as_times));
}

std::string difference(const PartPair& part) {
  return fmt::format("{} {} {}", format(Seconds(std::abs(part.change()))),
                     part.change() > 0 ? "more" : "less", part.name);
}

double step_of(const Comparison& both) {
  double step = 0;
  for (const PartPair& part : both.step) step += part.first;
  return step;
}

std::vector<PartPair> by_size(std::vector<PartPair> parts) {
  std::ranges::stable_sort(parts, std::ranges::greater{},
                           [](const PartPair& part) { return std::abs(part.change()); });
  return parts;
}

std::vector<FigurePair>::const_iterator figure_of(const Comparison& both, const std::string& key) {
  return std::ranges::find(both.figures, key, &FigurePair::key);
}

/// "B trains 1.4 times as fast (1.3 to 1.5)"
std::string pace_sentence(const Comparison& both) {
  const auto rate = figure_of(both, "samples_per_s");
  if (rate == both.figures.end() || !rate->ratio) return "";
  const double ratio = *rate->ratio;
  const bool same = std::abs(ratio - 1) < kSame;
  std::string text =
      same ? "B trains as fast as A"
      : is_large(ratio)
          ? fmt::format("B trains {:.2g} times as fast as A", ratio)
          : fmt::format("B trains {:.{}f} % {} than A", 100 * std::abs(ratio - 1),
                        std::abs(ratio - 1) < 0.1 ? 1 : 0, ratio > 1 ? "faster" : "slower");
  if (const auto chance = rate->chance_of_more()) {
    text += fmt::format(" (90 %: {}", interval_text(*rate));
    if (!same)
      text += fmt::format("; {} with {}", ratio > 1 ? "faster" : "slower",
                          chance_words(ratio > 1 ? *chance : 1 - *chance));
    text += ")";
  }
  return text + ".";
}

/// How long both take to the same loss, and whether that decides; or what is left out of it.
std::string loss_sentence(const Comparison& both) {
  const TrainingKind first = training_kind(both.first.report),
                     second = training_kind(both.second.report);
  const auto time = figure_of(both, "train_time_s");
  const bool equal = first.like_tokens > 0 && first.like_tokens == second.like_tokens;
  if (!equal || time == both.figures.end() || !time->ratio || !time->interval)
    return left_out_line({first, second});
  const double ratio = *time->ratio;
  const double chance = ratio < 1 ? 1 - *time->chance_of_more() : *time->chance_of_more();
  std::string text = fmt::format(
      "To the loss of {} tokens of plain training B takes {:.3g} times as long (90 %: {:.3g} to "
      "{:.3g}; {} with {}).",
      count_text(first.like_tokens), ratio, time->interval->low, time->interval->high,
      ratio < 1 ? "sooner" : "later", chance_words(chance));
  if (chance < kSureChance)
    text += fmt::format(" Undecided: a pilot run of both, on {} tokens, would decide.",
                        count_text(first.like_tokens / 10));
  return text;
}

std::string parts_sentence(const Comparison& both) {
  std::string text;
  for (const PartPair& part : by_size(both.step)) {
    if (std::abs(part.change()) < kLeast * step_of(both)) break;
    text += (text.empty() ? "" : ", ") + difference(part);
  }
  if (text.empty()) return "";
  const bool scaled = std::abs(both.scale - 1) > 1e-9;
  return fmt::format("{} it has {}.", scaled ? "For as many samples" : "In a step", text);
}

/// Why what differs costs no time; empty where it does, or where nothing differs.
std::string why_same_sentence(const Comparison& both) {
  const auto rate = figure_of(both, "samples_per_s");
  const bool same = rate != both.figures.end() && rate->ratio && std::abs(*rate->ratio - 1) < kSame;
  if (!same || both.inputs.empty()) return "";
  const double least = kLeast * step_of(both);
  const auto acts = [&](const PartPair& part) { return std::abs(part.change()) >= least; };
  if (std::ranges::any_of(both.step, acts)) return "";  // its parts are named, and cancel
  const std::vector<PartPair> flights = by_size(both.collectives);
  if (!flights.empty() && acts(flights.front()))
    return fmt::format("Why no time: {} in flight, hidden behind compute.",
                       difference(flights.front()));
  const auto changes = [](const PartPair& part) { return part.change() != 0; };
  if (std::ranges::any_of(both.step, changes)) return "";  // by too little to be told
  std::string keys;
  for (std::size_t i = 0; i < both.inputs.size() && i < 3; ++i)
    keys += (i == 0 ? "" : ", ") + both.inputs[i].key;
  const bool several = both.inputs.size() > 1;
  return fmt::format("Why no time: {}{} {} {}.", keys, both.inputs.size() > 3 ? " and others" : "",
                     several ? "change" : "changes",
                     std::ranges::any_of(both.memory, changes)
                         ? "memory alone"
                         : "nothing that runs here: the same operations take the same time");
}

std::string memory_sentence(const Comparison& both) {
  const auto a = memory_fit(both.first.report), b = memory_fit(both.second.report);
  if (!a || !b) return "";
  const auto text = [](const MemoryFit& fit) {
    return fit.verdict == MemoryVerdict::unknown
               ? format(fit.used)
               : fmt::format("{} ({})", to_string(fit.verdict), format(fit.used));
  };
  if (a->verdict == b->verdict)
    return fmt::format("Memory of a GPU: {} against {}, {}.", format(b->used), format(a->used),
                       to_string(b->verdict));
  return fmt::format("Memory: B {}, A {}.", text(*b), text(*a));
}

std::string cost_sentence(const Comparison& both) {
  const auto usd = figure_of(both, "cost.usd");
  if (usd == both.figures.end() || !usd->first || !usd->second) return "";
  return fmt::format("It costs {} USD against {}.", money(*usd->second), money(*usd->first));
}

/// A point of a sweep, and a report of an older version, may not say what intervals consist of.
std::string errors_sentence(const Comparison& both) {
  const bool ranged = std::ranges::any_of(
      both.figures, [](const FigurePair& one) { return one.interval.has_value(); });
  if (both.common_errors || !ranged) return "";
  return "Errors that both have do not cancel, as one side does not name them: compare the "
         "scenarios for narrower intervals.";
}

struct Of {
  static constexpr std::array kSeconds{"first_s", "second_s"},
      kBytes{"first_bytes", "second_bytes"};
};
/// Parts in seconds, or in bytes.
template <const std::array<const char*, 2>& kKeys>
struct PartRow {
  PartPair part;
};
template <const std::array<const char*, 2>& kKeys>
constexpr auto json_fields(const PartRow<kKeys>*) {
  using Row = PartRow<kKeys>;
  return std::tuple(derived<Row>("part", [](const Row& row) { return row.part.name; }),
                    derived<Row>(kKeys[0], [](const Row& row) { return row.part.first; }),
                    derived<Row>(kKeys[1], [](const Row& row) { return row.part.second; }));
}
template <const std::array<const char*, 2>& kKeys>
std::vector<PartRow<kKeys>> rows_of(const std::vector<PartPair>& parts) {
  std::vector<PartRow<kKeys>> rows;
  for (const PartPair& part : parts) rows.push_back({part});
  return rows;
}

std::optional<std::string> unless_empty(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

void add_inputs(const Comparison& both, Page& page) {
  using enum TableColumn::Side;
  if (both.inputs.empty())
    return page.wrapped_field("inputs", Ink::plain, "the same, as far as the reports say");
  Table table({{"differs", left}, {"A", left}, {"B", left}});
  for (const InputDifference& one : both.inputs)
    table.row(
        {{one.key, one.first.empty() ? "-" : one.first, one.second.empty() ? "-" : one.second}});
  table.print(page);
}

void add_figures(const Comparison& both, Page& page) {
  using enum TableColumn::Side;
  Table table({{"", left}, {"A"}, {"B"}, {"B beside A"}, {"90 % interval", left, true}});
  for (const FigurePair& one : both.figures)
    table.row(
        {{one.name, one.first ? value_text(one.unit, *one.first) : "-",
          one.second ? value_text(one.unit, *one.second) : "-",
          one.ratio ? ratio_text(*one.ratio, is_large(*one.ratio)) : "", interval_text(one)}});
  page.blank();
  table.print(page);
  page.line(page.ink(Ink::faint, both.common_errors
                                     ? "intervals of times: what both are off by together cancels"
                                     : "intervals: errors that both have do not cancel"));
}

void add_parts(const char* title, const std::vector<PartPair>& parts, bool bytes, Page& page) {
  using enum TableColumn::Side;
  const auto text = [&](double value) {
    return bytes ? format(Bytes(value)) : format(Seconds(value));
  };
  Table table({{title, left}, {"A"}, {"B"}, {"change"}});
  for (const PartPair& part : by_size(parts))
    table.row({{part.name, text(part.first), text(part.second),
                (part.change() < 0   ? "-"
                 : part.change() > 0 ? "+"
                                     : "") +
                    text(std::abs(part.change()))}});
  if (table.empty()) return;
  page.blank();
  table.print(page);
}

}  // namespace

std::string answer(const Comparison& comparison) {
  std::string text;
  for (const std::string& sentence :
       {pace_sentence(comparison), loss_sentence(comparison), parts_sentence(comparison),
        why_same_sentence(comparison), memory_sentence(comparison), cost_sentence(comparison),
        errors_sentence(comparison)})
    if (!sentence.empty()) text += (text.empty() ? "" : " ") + sentence;
  return text;
}

constexpr auto json_fields(const InputDifference*) {
  using Row = InputDifference;
  return std::tuple(
      field("key", &Row::key),
      derived<Row>("first", [](const Row& row) { return unless_empty(row.first); }),
      derived<Row>("second", [](const Row& row) { return unless_empty(row.second); }));
}

constexpr auto json_fields(const FigurePair*) {
  using Pair = FigurePair;
  return std::tuple(
      field("key", &Pair::key), field("name", &Pair::name), field("first", &Pair::first),
      field("second", &Pair::second), field("ratio", &Pair::ratio),
      field("ratio_interval", &Pair::interval),
      derived<Pair>("chance_of_more", [](const Pair& pair) { return pair.chance_of_more(); }));
}

constexpr auto json_fields(const Compared*) {
  return std::tuple(
      field("name", &Compared::name),
      derived<Compared>("answer", [](const Compared& side) { return answer(side.report); }),
      made<Compared>(
          "report", [](const Compared& side) { return json_view(side.report); }, report_schema));
}

constexpr auto json_fields(const Comparison*) {
  using Both = Comparison;
  return std::tuple(
      constant<Both>("schema", "rehearse.compare/1"),
      derived<Both>("description",
                    [](const Both& both) { return both.first.name + " and " + both.second.name; }),
      derived<Both>("answer", [](const Both& both) { return answer(both); }),
      field("first", &Both::first), field("second", &Both::second), field("inputs", &Both::inputs),
      field("figures", &Both::figures),
      derived<Both>("errors",
                    [](const Both& both) {
                      return std::string(both.common_errors ? "common" : "independent");
                    }),
      field("scale", &Both::scale),
      derived<Both>("step", [](const Both& both) { return rows_of<Of::kSeconds>(both.step); }),
      derived<Both>("collectives",
                    [](const Both& both) { return rows_of<Of::kSeconds>(both.collectives); }),
      derived<Both>("memory", [](const Both& both) { return rows_of<Of::kBytes>(both.memory); }));
}

std::string to_json(const Comparison& comparison) {
  return json_text(to_json_value(comparison), 2) + "\n";
}

nlohmann::ordered_json comparison_schema() {
  return titled_schema("Two runs beside each other", json_schema<Comparison>());
}

std::string to_csv(const Comparison& comparison) {
  using enum TableColumn::Side;
  Table table({{"key", left},
               {"first"},
               {"second"},
               {"ratio"},
               {"ratio_low"},
               {"ratio_high"},
               {"chance_of_more"}});
  const auto text = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : "";
  };
  for (const FigurePair& one : comparison.figures)
    table.row({{one.key, text(one.first), text(one.second), text(one.ratio),
                one.interval ? text(one.interval->low) : "",
                one.interval ? text(one.interval->high) : "", text(one.chance_of_more())}});
  return table.csv();
}

std::string to_terminal(const Comparison& comparison, int width, bool color) {
  Page page(static_cast<std::size_t>(std::clamp(width, kNarrowestTable, kWidestTable)), color);
  page.paragraph(Ink::strong, answer(comparison));
  page.blank();
  page.wrapped_field("A", Ink::plain, comparison.first.name);
  page.wrapped_field("B", Ink::plain, comparison.second.name);
  page.blank();
  add_inputs(comparison, page);
  add_figures(comparison, page);
  const bool scaled = std::abs(comparison.scale - 1) > 1e-9;
  add_parts(scaled ? "a step (B: for as many samples)" : "a step", comparison.step, false, page);
  add_parts("collectives in flight", comparison.collectives, false, page);
  add_parts("memory of a GPU", comparison.memory, true, page);
  return page.text();
}

}  // namespace rehearse::inline view
