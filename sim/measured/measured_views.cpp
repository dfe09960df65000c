// Measurements and two of them side by side, as text and CSV.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measured/measured.hpp"
#include "view/table.hpp"

namespace rehearse::inline measured {
namespace {

using Side = TableColumn::Side;

constexpr std::size_t kMostKernels = 12;
constexpr double kLeast = 0.005;  ///< of a step; less is not told
constexpr double kMuch = 0.25;    ///< of a step's change

bool is_part_of_step(const std::string& kind) {
  return kind == "forward" || kind == "backward" || kind == "optimizer" || kind == "waiting";
}

const MeasuredPart* step_of(const MeasuredFolder& measured) {
  const auto found = std::ranges::find(measured.parts, "step", &MeasuredPart::kind);
  return found == measured.parts.end() ? nullptr : &*found;
}

std::string spread_text(double spread) { return spread > 0 ? percent(spread) : ""; }

std::string often_text(double often) { return often == 1 ? "" : fmt::format("{:.3g}", often); }

std::string change_text(Seconds change) {
  return (change.value() < 0 ? "-" : "+") + format(Seconds(std::abs(change.value())));
}

Table table_of(const MeasuredFolder& measured, std::size_t most_kernels) {
  Table table({{"name", Side::left},
               {"what", Side::left},
               {"time"},
               {"spread"},
               {"in a step", Side::right, true}});
  std::size_t kernels = 0;
  for (const MeasuredPart& part : measured.parts) {
    if (part.kind == "kernel" && ++kernels > most_kernels) continue;
    table.row({{part.name, part.kind, format(part.time), spread_text(part.spread),
                often_text(part.in_a_step)}});
  }
  return table;
}

Table table_of(const MeasuredComparison& both, std::size_t most_kernels) {
  Table table({{"name", Side::left},
               {"what", Side::left},
               {"A"},
               {"B"},
               {"change"},
               {"beyond their spreads", Side::left, true}});
  std::size_t kernels = 0;
  const bool all = most_kernels >= both.changes.size();
  for (const MeasuredChange& one : both.changes) {
    const bool moved = one.first.kind == "step" || one.change() != Seconds(0);
    if (!all && (!moved || (one.first.kind == "kernel" && ++kernels > most_kernels))) continue;
    const auto time = [&](const MeasuredPart& part) {
      return one.both || part.time > Seconds(0) ? format(part.time) : std::string("none");
    };
    const bool apart = one.is_beyond_spread();
    table.row({.cells = {one.first.name, one.first.kind, time(one.first), time(one.second),
                         change_text(one.change()), apart ? "yes" : ""},
               .ink = apart ? Ink::strong : Ink::plain});
  }
  return table;
}

template <class Shown>
std::string printed(const Shown& shown, const std::vector<std::string>& names, int width,
                    bool color) {
  Page page(static_cast<std::size_t>(std::max(width, 60)), color);
  for (const std::string& name : names) page.line(page.ink(Ink::strong, name));
  page.paragraph(Ink::plain, answer(shown));
  page.blank();
  table_of(shown, kMostKernels).print(page);
  return page.text();
}

/// The parts of a kind that changed beyond their spreads, the largest three: "layers.3 by 4 ms".
std::string largest(const MeasuredComparison& both, const std::string& kind, Seconds least) {
  std::string text;
  int told = 0;
  for (const MeasuredChange& one : both.changes) {
    if (one.first.kind != kind || !one.is_beyond_spread()) continue;
    if (std::abs(one.change().value()) < least.value() || ++told > 3) break;
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", one.first.name, change_text(one.change()));
  }
  return text;
}

/// The runs' own sizes, where they differ: these explain more than any part does.
std::string unlike_runs(const MeasuredFolder& a, const MeasuredFolder& b) {
  std::string text;
  const auto differ = [&](const char* what, std::int64_t first, std::int64_t second) {
    if (first > 0 && second > 0 && first != second)
      text += fmt::format(" A ran at {} of {}, B of {}.", what, first, second);
  };
  differ("a batch", a.batch, b.batch);
  differ("a number of ranks", a.ranks, b.ranks);
  return text;
}

/// That others had the cores, where much of what changed is that.
std::string cores_text(const MeasuredComparison& both, Seconds change) {
  for (const MeasuredChange& one : both.changes)
    if (one.first.kind == "core" && one.both &&
        std::abs(one.change().value()) > kMuch * std::abs(change.value()))
      return fmt::format(
          " Threads stood ready and had no core for {} in A and {} in B: others' programs moved "
          "all parts, and {} of the change is theirs.",
          format(one.first.time), format(one.second.time), change_text(one.change()));
  return "";
}

}  // namespace

std::string answer(const MeasuredFolder& measured) {
  std::string text;
  if (const MeasuredPart* step = step_of(measured); step != nullptr) {
    text = fmt::format("A step took {}", format(step->time));
    if (step->spread > 0) text += fmt::format(" (quartiles {} apart)", percent(step->spread));
    text += ":";
    std::string parts;
    for (const MeasuredPart& part : measured.parts)
      if (is_part_of_step(part.kind) && part.time > kLeast * step->time)
        parts += fmt::format("{} {} {}", parts.empty() ? "" : ",", format(part.time),
                             part.kind == "waiting" ? "waiting " + part.name : part.kind);
    text += parts + ". ";
  }
  const auto count = std::ranges::count_if(
      measured.parts, [](const MeasuredPart& one) { return one.kind.starts_with("unit"); });
  const auto sent = std::ranges::count(measured.parts, "collective", &MeasuredPart::kind);
  text += fmt::format("Measured: {} passes of units, {} sizes of collectives", count, sent);
  if (!measured.device.empty()) text += ", on " + measured.device;
  return text + ".";
}

std::string answer(const MeasuredComparison& both) {
  const MeasuredChange* step = nullptr;
  Seconds whole(0);
  for (const MeasuredChange& one : both.changes)
    if (one.first.kind == "step") step = &one;
  std::string text;
  if (step != nullptr && step->both && step->first.time > Seconds(0)) {
    whole = step->first.time;
    const double ratio = step->second.time / step->first.time - 1;
    text = fmt::format("A step of B takes {} against {}, {:+.1f} %", format(step->second.time),
                       format(step->first.time), 100 * ratio);
    text += step->is_beyond_spread() ? "." : ": within the spread of both.";
  } else {
    text = "The sides have no whole step in common.";
    for (const MeasuredPart& part : both.first.parts)
      if (is_part_of_step(part.kind)) whole = whole + part.time;
  }
  text += unlike_runs(both.first, both.second);
  if (step != nullptr) text += cores_text(both, step->change());
  const Seconds least = kLeast * whole;
  std::string parts;
  for (const MeasuredChange& one : both.changes) {
    if (!is_part_of_step(one.first.kind) || std::abs(one.change().value()) < least.value())
      continue;
    parts +=
        fmt::format("{}{} {}", parts.empty() ? "" : ", ", change_text(one.change()),
                    one.first.kind == "waiting" ? "waiting " + one.first.name : one.first.kind);
  }
  if (!parts.empty()) text += " Of it: " + parts + ".";
  for (const char* kind : {"unit forward", "unit backward", "collective", "kernel"})
    if (const std::string found = largest(both, kind, least); !found.empty())
      text += fmt::format(" {}: {}.", kind, found);
  const auto shared = std::ranges::count_if(both.changes, &MeasuredChange::both);
  if (std::ranges::none_of(both.changes, &MeasuredChange::is_beyond_spread))
    text += fmt::format(" None of {} parts that both have is beyond its spread.", shared);
  const std::string &a = both.first.model, &b = both.second.model;
  if (!a.empty() && !b.empty() && a != b) text += fmt::format(" A is of {}, B of {}.", a, b);
  return text;
}

std::string to_csv(const MeasuredFolder& measured) {
  return table_of(measured, measured.parts.size()).csv();
}

std::string to_csv(const MeasuredComparison& both) {
  return table_of(both, both.changes.size()).csv();
}

std::string to_terminal(const MeasuredFolder& measured, int width, bool color) {
  return printed(measured, {measured.name}, width, color);
}

std::string to_terminal(const MeasuredComparison& both, int width, bool color) {
  return printed(both, {"A " + both.first.name, "B " + both.second.name}, width, color);
}

}  // namespace rehearse::inline measured
