#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "explain/explanation.hpp"
#include "report/compute_grounds.hpp"
#include "view/collectives.hpp"
#include "view/grounds_view.hpp"
#include "view/page.hpp"
#include "view/page_parts.hpp"

namespace rehearse::inline explanation {
namespace {

constexpr int kNarrowest = 60, kWidest = 110;
constexpr std::size_t kListed = 5;  ///< of a long list
constexpr std::size_t kNameColumns = 26, kFigures = 9, kLeastBar = 5, kRankColumns = 7,
                      kWideFigures = 13;

/// A time that may be below 0 ("-3.2 ms"), or less than it says anything about.
std::string difference(Seconds time) {
  return (time < Seconds(0) ? "-" : "") + format(Seconds(std::abs(time.value())));
}

/// Text in so many columns: cut, between characters, where it is longer.
std::string fitted(std::string text, std::size_t width) {
  if (columns(text) <= width) return left(text, width);
  while (columns(text) >= width) text.pop_back();
  while (!text.empty() && (text.back() & 0x80) != 0) text.pop_back();
  return left(text + "~", width);
}

/// "name   1.23 ms   45.6 %  ████".
void add_bar(std::string_view field, const std::string& name, Seconds time, double share, Ink ink,
             Page& page) {
  const std::size_t bar_width = page.body_width() - kNameColumns - 2 * kFigures - 2;
  const std::string blocks =
      bar_width < kLeastBar ? "" : bar(std::clamp(share, 0.0, 1.0), bar_width);
  page.field(field, fitted(name, kNameColumns) + right(difference(time), kFigures) +
                        right(percent(share), kFigures) +
                        (blocks.empty() ? "" : "  " + page.ink(ink, blocks)));
}

Ink ink_of(PathKind kind) {
  switch (kind) {
    case PathKind::compute:
      return Ink::compute;
    case PathKind::collective:
    case PathKind::transfer:
      return Ink::communication;
    case PathKind::straggler:
    case PathKind::jitter:
    case PathKind::slowed:
      return Ink::bad;
    case PathKind::host:
    case PathKind::loading:
    case PathKind::server:
    case PathKind::queue:
      return Ink::faint;
  }
  return Ink::plain;
}

void add_head(const Explanation& explanation, Page& page) {
  const std::string cluster = explanation.cluster.empty() ? "inline cluster" : explanation.cluster;
  page.paragraph(Ink::strong,
                 fmt::format("{} · {} · {}", explanation.model, explanation.strategy, cluster));
  page.paragraph(Ink::faint, fmt::format("{} GPU{} on {} node{}; step time {}; fidelity {}",
                                         explanation.gpus, explanation.gpus == 1 ? "" : "s",
                                         explanation.nodes, explanation.nodes == 1 ? "" : "s",
                                         format(explanation.step_time), explanation.fidelity));
  page.paragraph(Ink::faint, explanation.description);
}

void add_path(const CriticalPath& path, Page& page) {
  page.blank();
  const char* field = "critical path";
  for (std::size_t k = 0; k < kPathKinds; ++k) {
    const Seconds time = path.shares.by_kind[k];
    if (time <= path.total * 1e-9) continue;
    const auto kind = static_cast<PathKind>(k);
    add_bar(field, to_string(kind), time, time / path.total, ink_of(kind), page);
    field = "";
  }
  const auto& units = path.shares.by_unit;
  for (std::size_t i = 0; i < std::min(units.size(), kListed); ++i)
    add_bar(i == 0 ? "by unit" : "", units[i].name, units[i].time, units[i].time / path.total,
            Ink::plain, page);
  if (units.size() > kListed)
    page.field("", page.ink(Ink::faint,
                            fmt::format("and {} more (--format json)", units.size() - kListed)));
  const auto& ranks = path.shares.by_rank;
  for (std::size_t i = 0; i < std::min(ranks.size(), kListed) && ranks.size() > 1; ++i)
    add_bar(i == 0 ? "by rank" : "", fmt::format("rank {}", ranks[i].first.index()),
            ranks[i].second, ranks[i].second / path.total, Ink::plain, page);
  field = "by link";
  for (const LinkTime& link : path.shares.by_link) {
    add_bar(field, link.where.empty() ? link.link : link.link + " of " + link.where, link.time(),
            link.time() / path.total, Ink::communication, page);
    page.wrapped_field(
        "", Ink::faint,
        fmt::format("  latency {}, bandwidth {}, contention {}", format(link.latency),
                    format(link.bandwidth), format(link.contention)));
    field = "";
  }
}

struct Column {
  const char* name;
  Seconds RankSplit::*time;
};

/// As many as fit.
std::vector<Column> rank_columns(const Page& page) {
  std::vector<Column> list{{"compute", &RankSplit::compute},
                           {"exposed", &RankSplit::exposed_communication},
                           {"idle", &RankSplit::idle}};
  if (page.body_width() >= 7 * kFigures + kRankColumns)
    list.insert(
        list.end(),
        {{"host", &RankSplit::host}, {"peers", &RankSplit::peer}, {"server", &RankSplit::server}});
  return list;
}

void add_rank(const RankSplit& rank, const std::vector<Column>& shown, Page& page) {
  std::string text = left(fmt::format("{}", rank.rank.index()), kRankColumns);
  for (const Column& column : shown)
    text += right(percent(rank.*column.time / rank.step), kFigures);
  page.field("", text + right(format(rank.slack), kFigures));
}

/// The first and the last of those that compute longest.
void add_ranks(const Explanation& explanation, Page& page) {
  page.blank();
  const std::vector<Column> shown = rank_columns(page);
  std::string head(kRankColumns, ' ');
  for (const Column& column : shown) head += right(column.name, kFigures);
  page.field("ranks", page.ink(Ink::faint, head + right("slack", kFigures)));
  std::vector<RankSplit> ranks = explanation.ranks;
  std::ranges::stable_sort(ranks, std::ranges::greater{}, &RankSplit::compute);
  const bool all = ranks.size() <= 2 * kListed;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (all || i < kListed || i + 2 >= ranks.size())
      add_rank(ranks[i], shown, page);
    else if (i == kListed)
      page.field("", page.ink(Ink::faint, fmt::format("... {} more", ranks.size() - kListed - 2)));
  }
}

/// The stages, and what their bubbles wait for.
void add_pipeline(const StageFindings& pipeline, Page& page) {
  if (pipeline.stages.empty()) return;
  add_stages(pipeline.stages, page);
  Seconds step;
  for (const RankSplit& rank : pipeline.waits)
    step += rank.step / static_cast<double>(pipeline.waits.size());
  const std::vector<NamedTime> causes = bubble_causes(pipeline);
  for (std::size_t i = 0; i < std::min(causes.size(), kListed); ++i)
    add_bar(i == 0 ? "bubbles for" : "", causes[i].name, causes[i].time, causes[i].time / step,
            Ink::faint, page);
}

void add_list(const char* name, const std::vector<Alternative>& list, std::size_t count,
              Page& page) {
  if (list.empty()) return;
  page.blank();
  for (std::size_t i = 0; i < std::min(list.size(), count); ++i)
    add_bar(i == 0 ? name : "", list[i].words, list[i].saved, list[i].saved_share, Ink::good, page);
}

void add_attribution(const Explanation& explanation, Page& page) {
  add_list("it would save", explanation.causes, explanation.causes.size(), page);
  if (explanation.ideal)
    add_bar("", "all of these", explanation.ideal->saved, explanation.ideal->saved_share,
            Ink::strong, page);
  if (!explanation.causes.empty())
    page.wrapped_field("", Ink::faint,
                       "causes overlap, so that what they save alone does not add up");
  add_list("without", explanation.operations, kListed, page);
  add_list("worker", explanation.workers, kListed, page);
  add_list("software", explanation.software, kListed, page);
}

/// With what it does to the pace and, where the cluster has a price, to that of samples.
void add_more(const Explanation& explanation, Page& page) {
  if (explanation.more.empty()) return;
  const bool wide = page.body_width() >= 70;
  const bool priced = wide && explanation.usd_per_hour;
  std::string head = std::string(kNameColumns + kFigures, ' ') + right("saves", kFigures);
  if (wide) head += right("samples/s", kWideFigures);
  if (priced) head += right("USD per 1M", kWideFigures);
  page.blank();
  page.field("more of", page.ink(Ink::faint, head));
  for (const Alternative& one : explanation.more) {
    std::string text =
        fitted(fmt::format("{:+.3g} % {}", 100 * one.change, one.words), kNameColumns) +
        right(difference(one.saved), kFigures) + right(percent(one.saved_share), kFigures);
    if (wide) text += right(fmt::format("{:.4g}", one.samples_per_s), kWideFigures);
    if (priced) text += right(fmt::format("{:.3f}", *one.usd_per_million_samples), kWideFigures);
    page.field("", text);
  }
}

}  // namespace

std::string to_terminal(const Explanation& explanation, int width, bool color, Detail detail) {
  Page page(static_cast<std::size_t>(std::clamp(width, kNarrowest, kWidest)), color);
  const std::string first = answer(explanation);
  page.paragraph(Ink::strong, first);
  page.blank();
  add_head(explanation, page);
  page.blank();
  for (const std::string& sentence : explanation.words)
    if (first.find(sentence) == std::string::npos) page.paragraph(Ink::plain, "- " + sentence);
  if (detail == Detail::brief) {
    add_list("it would save", explanation.causes, kListed, page);
    add_list("software", explanation.software, kListed, page);
    add_more(explanation, page);
    return page.text();
  }
  add_path(explanation.path, page);
  add_collectives(explanation.collectives, page);
  add_pipeline(explanation.pipeline, page);
  add_compute(explanation.compute, page);
  add_ranks(explanation, page);
  add_attribution(explanation, page);
  add_more(explanation, page);
  return page.text();
}

}  // namespace rehearse::inline explanation
