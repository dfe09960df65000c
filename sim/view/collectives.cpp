#include "view/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace rehearse::inline view {
namespace {

constexpr std::size_t kListed = 4;

std::string line_of(const CollectiveReport& one) {
  std::string text =
      fmt::format("{} x {} {} on {}", one.count, one.kind, format(one.size), one.ranks);
  if (one.nodes > 1)
    text += fmt::format(" ranks of {} nodes", one.nodes);
  else
    text += " ranks";
  text += ": " + one.algorithm;
  if (!one.protocol.empty()) text += " " + one.protocol;
  if (one.time > Seconds(0))
    text += fmt::format(", {}, busbw {}", format(one.time), format(one.busbw));
  return text + fmt::format(" ({})", one.answered_by);
}

/// Those that print alike but for their number, in one: sizes of units differ by a few bytes.
std::vector<CollectiveReport> as_printed(const std::vector<CollectiveReport>& collectives) {
  std::map<std::string, std::size_t> rows;
  std::vector<CollectiveReport> all;
  for (const CollectiveReport& one : collectives) {
    CollectiveReport single = one;
    single.count = 1;
    const auto [at, fresh] = rows.try_emplace(line_of(single), all.size());
    if (fresh)
      all.push_back(one);
    else
      all[at->second].count += one.count;
  }
  return all;
}

}  // namespace

void add_collectives(const std::vector<CollectiveReport>& collectives, Page& page) {
  if (collectives.empty()) return;
  std::vector<CollectiveReport> longest = as_printed(collectives);
  std::ranges::stable_sort(longest, std::ranges::greater{}, [](const CollectiveReport& one) {
    return one.time * static_cast<double>(one.count);
  });
  page.blank();
  for (std::size_t i = 0; i < std::min(longest.size(), kListed); ++i)
    page.wrapped_field(i == 0 ? "collectives" : "", Ink::plain, line_of(longest[i]));
  if (longest.size() > kListed)
    page.field("", page.ink(Ink::faint,
                            fmt::format("and {} more (--format json)", longest.size() - kListed)));
}

}  // namespace rehearse::inline view
