#include "model/token_histogram.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <numeric>
#include <string_view>

#include "base/number.hpp"
#include "config/files_read.hpp"
#include "config/text_source.hpp"

namespace rehearse::inline model {
namespace {

struct HistogramCell {
  std::string_view text;
  std::size_t byte = 0;
};

std::vector<HistogramCell> cells_of(std::string_view line) {
  constexpr std::string_view kBetween = ", \t;";
  std::vector<HistogramCell> cells;
  for (std::size_t at = line.find_first_not_of(kBetween); at < line.size();) {
    const std::size_t end = std::min(line.find_first_of(kBetween, at), line.size());
    cells.push_back({line.substr(at, end - at), at});
    at = line.find_first_not_of(kBetween, end);
  }
  return cells;
}

bool is_header(const std::vector<HistogramCell>& cells) {
  return std::ranges::none_of(
      cells, [](const HistogramCell& cell) { return decimal_number(cell.text).has_value(); });
}

std::vector<double> row_of(const std::vector<HistogramCell>& cells, TextPosition place) {
  std::vector<double> row;
  for (const HistogramCell& cell : cells) {
    place.byte = cell.byte;
    const auto tokens = decimal_number(cell.text);
    if (!tokens) fail_at(place, fmt::format("\"{}\" is no number of tokens", cell.text));
    if (*tokens < 0) fail_at(place, fmt::format("an expert got {} tokens", cell.text), "0 or more");
    row.push_back(*tokens);
  }
  place.byte = 0;
  if (std::ranges::all_of(row, [](double tokens) { return tokens == 0; }))
    fail_at(place, "no expert of this layer got a token");
  return row;
}

/// The largest of `count` values of a standard normal distribution, in the mean (Blom 1958).
double expected_largest(std::int64_t count) {
  const auto n = static_cast<double>(count);
  return boost::math::quantile(boost::math::normal(), (n - 0.375) / (n + 0.25));
}

}  // namespace

std::vector<double> TokenHistogram::imbalance(std::size_t ranks) const {
  std::vector<double> all;
  const auto each = static_cast<std::ptrdiff_t>(experts() / ranks);
  for (const std::vector<double>& row : rows) {
    double fullest = 0;
    for (auto first = row.begin(); first != row.end(); first += each)
      fullest = std::max(fullest, std::accumulate(first, first + each, 0.0));
    const double mean = std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(ranks);
    all.push_back(std::max(1.0, fullest / mean));
  }
  return all;
}

double natural_imbalance(std::int64_t experts, std::int64_t ranks) {
  constexpr double kFullest = 0.72;
  constexpr std::int64_t kExperts = 64;
  if (ranks == 1) return 1;
  const double deviation = kFullest / expected_largest(kExperts);
  const double each = static_cast<double>(experts) / static_cast<double>(ranks);
  return 1 + deviation / std::sqrt(each) * expected_largest(ranks);
}

TokenHistogram read_token_histogram(const std::filesystem::path& file) {
  const auto source = make_text_source(read_input(file, kMaxTextBytes), file.string(), "");
  TokenHistogram histogram{.file = file.string(), .rows = {}};
  bool first = true;
  for (std::size_t number = 0; number < source->lines.size(); ++number) {
    const std::string_view line = source->lines[number];
    const std::vector<HistogramCell> cells = cells_of(line);
    if (cells.empty() || line.starts_with('#')) continue;
    const bool header = first && is_header(cells);
    first = false;
    if (header) continue;
    const TextPosition place{source, number, 0};
    histogram.rows.push_back(row_of(cells, place));
    if (histogram.rows.back().size() != histogram.experts())
      fail_at(place, fmt::format("{} experts here, and {} in the first row",
                                 histogram.rows.back().size(), histogram.experts()));
  }
  if (histogram.rows.empty())
    fail_at({source, 0, 0}, "no row of tokens per expert",
            "a row for each layer, or one for all: 120, 98, 143, 87");
  return histogram;
}

}  // namespace rehearse::inline model
