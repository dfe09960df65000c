#include "validation/scoreboard.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace rehearse::inline validation {
namespace {

const std::string kCpus = "CPUs", kAll = "all", kOthers = "others";

/// Outliers that a scoreboard names.
constexpr std::size_t kMostOutliers = 10;

/// One number of a line.
struct Row {
  double error = 0;  ///< of the time or the memory
  std::optional<bool> inside;
  std::optional<double> half_width;
  std::optional<double> score;  ///< of the interval
};

bool is_rate(const ComparedMetric& metric) {
  return metric.metric.find("per_s") != std::string::npos;
}

bool is_memory(const ComparedMetric& metric) { return metric.metric.starts_with("memory."); }

bool counts(const ComparedMetric& metric) {
  return metric.kind() == ErrorKind::relative && metric.measured > 0 && metric.predicted > 0;
}

Row row_of(const ComparedMetric& metric) {
  const double ratio = metric.predicted / metric.measured;
  Row row{.error = (is_rate(metric) ? 1 / ratio : ratio) - 1,
          .inside = metric.inside(),
          .half_width = {},
          .score = {}};
  if (metric.interval && metric.interval->low > 0) {
    constexpr double kBeyond = 2 / 0.1;
    const double low = std::log(metric.interval->low), high = std::log(metric.interval->high),
                 measured = std::log(metric.measured);
    row.half_width = std::exp((high - low) / 2) - 1;
    row.score =
        high - low + kBeyond * (std::max(0.0, low - measured) + std::max(0.0, measured - high));
  }
  return row;
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

ScoreLine summed(Facets of, const std::vector<Row>& rows) {
  ScoreLine line{.of = std::move(of), .cases = rows.size()};
  if (rows.empty()) return line;
  std::vector<double> sizes, widths;
  double score = 0;
  for (const Row& row : rows) {
    sizes.push_back(std::abs(row.error));
    line.bias += row.error / static_cast<double>(rows.size());
    line.mean += sizes.back() / static_cast<double>(rows.size());
    if (row.half_width) widths.push_back(*row.half_width);
    score += row.score.value_or(0);
    if (!row.inside) continue;
    ++line.coverage.intervals;
    line.coverage.inside += *row.inside ? 1 : 0;
  }
  std::ranges::sort(sizes);
  line.median = median_of(sizes);
  const double rank = 0.9 * static_cast<double>(sizes.size());
  line.p90 = sizes[static_cast<std::size_t>(std::ceil(rank)) - 1];
  line.most = sizes.back();
  if (widths.empty()) return line;
  line.half_width = median_of(widths);
  line.score = score / static_cast<double>(widths.size());
  return line;
}

using Rows = std::map<Facets, std::vector<Row>>;

void move_into(Rows& rows, Rows::iterator from, const Facets& line) {
  std::vector<Row> moved = std::move(from->second);
  rows.erase(from);
  std::vector<Row>& into = rows[line];
  into.insert(into.end(), moved.begin(), moved.end());
}

/// Lines with too few rows become `wider(line)`.
template <class Wider>
Rows without_small(Rows rows, Wider&& wider) {
  std::vector<Facets> small;
  for (const auto& [of, own] : rows)
    if (own.size() < kLeastCases) small.push_back(of);
  for (const Facets& of : small) move_into(rows, rows.find(of), wider(of));
  return rows;
}

ScoreTable table_of(Rows rows) {
  ScoreTable table;
  std::vector<Row> cpus, all;
  for (const auto& [of, own] : rows) {
    std::vector<Row>& into = of.gpu == kCpus ? cpus : all;
    into.insert(into.end(), own.begin(), own.end());
  }
  std::erase_if(rows, [](const auto& one) { return one.first.gpu == kCpus; });
  if (!cpus.empty()) table.cpus = summed({.gpu = kCpus, .framework = kAll, .work = kAll}, cpus);
  rows = without_small(std::move(rows), [](const Facets& of) {
    return Facets{.gpu = of.gpu, .framework = kOthers, .work = kOthers};
  });
  rows = without_small(std::move(rows), [](const Facets&) {
    return Facets{.gpu = kOthers, .framework = kOthers, .work = kOthers};
  });
  for (const auto& [of, own] : rows) table.lines.push_back(summed(of, own));
  // Others stand behind what has a name.
  std::ranges::stable_partition(table.lines,
                                [](const ScoreLine& one) { return one.of.gpu != kOthers; });
  if (!all.empty()) table.lines.push_back(summed({kAll, kAll, kAll}, all));
  return table;
}

/// Calls `take(set, case, compared case, metric)` for what is held out and has a prediction.
template <class Take>
void for_each_number(const Validation& validation, Take&& take) {
  for (const ComparedFile& compared : validation) {
    for (std::size_t i = 0; i < compared.cases.size(); ++i) {
      const ValidationCase& one = compared.file.cases[i];
      if (!one.held_out) continue;
      for (const ComparedMetric& metric : compared.cases[i].metrics)
        if (counts(metric)) take(compared.file, one, compared.cases[i], metric);
    }
  }
}

std::vector<RelationLine> relations_of(const Validation& validation) {
  std::vector<RelationLine> lines;
  for (const Relation relation : {Relation::never_seen, Relation::left_out, Relation::input}) {
    RelationLine line{.relation = relation};
    std::vector<Row> time, memory;
    for_each_number(validation, [&](const CaseFile& file, const ValidationCase&,
                                    const ComparedCase& told, const ComparedMetric& metric) {
      if (file.relation != relation || told.facets.gpu == kCpus) return;
      (is_memory(metric) ? memory : time).push_back(row_of(metric));
      if (std::ranges::find(line.sets, file.name) == line.sets.end())
        line.sets.push_back(file.name);
    });
    if (line.sets.empty()) continue;
    line.time = summed({}, time);
    line.memory = summed({}, memory);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<Outlier> outliers_of(const Validation& validation) {
  std::vector<std::pair<double, Outlier>> found;
  for_each_number(validation, [&](const CaseFile& file, const ValidationCase& one,
                                  const ComparedCase& told, const ComparedMetric& metric) {
    if (told.facets.gpu == kCpus || metric.inside().value_or(true)) return;
    const Row row = row_of(metric);
    found.push_back({std::abs(std::log1p(row.error)),
                     {.set = file.name,
                      .name = one.name,
                      .metric = metric.metric,
                      .error = row.error,
                      .cause = one.note}});
  });
  std::ranges::stable_sort(found, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Outlier> outliers;
  for (const auto& [size, outlier] : found) {
    if (outliers.size() == kMostOutliers) break;
    outliers.push_back(outlier);
  }
  return outliers;
}

void add_fits(const Validation& validation, Scoreboard& board) {
  board.reliability = reliability_of_fits(validation);
  for (const FitSummary& one : summarize_fits(validation)) {
    board.fits.fit_right += one.fit_right;
    board.fits.fit_wrong += one.fit_wrong;
    board.fits.oom_right += one.oom_right;
    board.fits.oom_wrong += one.oom_wrong;
  }
}

void add_layouts(const Validation& validation, Scoreboard& board) {
  const std::vector<RankingSummary> rankings = summarize_rankings(validation);
  for (const RankingSummary& one : rankings) {
    board.tau += one.tau / static_cast<double>(rankings.size());
    board.regret += one.regret / static_cast<double>(rankings.size());
    board.pairs += one.pairs;
    board.right_pairs += one.right_pairs;
  }
  board.layouts = rankings.size();
}

}  // namespace

Scoreboard scoreboard_of(const Validation& validation) {
  Rows time, memory;
  for_each_number(validation, [&](const CaseFile&, const ValidationCase&, const ComparedCase& told,
                                  const ComparedMetric& metric) {
    (is_memory(metric) ? memory : time)[told.facets].push_back(row_of(metric));
  });
  Scoreboard board{.time = table_of(std::move(time)), .memory = table_of(std::move(memory))};
  board.relations = relations_of(validation);
  board.outliers = outliers_of(validation);
  add_fits(validation, board);
  add_layouts(validation, board);
  return board;
}

}  // namespace rehearse::inline validation
