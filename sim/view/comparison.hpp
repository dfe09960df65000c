#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/common_errors.hpp"

namespace rehearse::inline view {

/// One side of a comparison.
struct Compared {
  std::string name;  ///< as the user gave it
  Report report;
  ErrorShifts shifts{};                           ///< empty: not known
  std::map<std::string, std::string> settings{};  ///< its scenario's, by dotted path
};

/// A setting or a default that the sides do not share; empty: not there.
struct InputDifference {
  std::string key, first, second;
};
/// The unit of a figure says how people read it.
enum class FigureUnit { number, seconds, bytes, rate, share, usd };

/// A figure of `rehearse.report/1` by its key.
struct FigurePair {
  std::string key, name;
  FigureUnit unit = FigureUnit::number;
  std::optional<double> first, second;
  std::optional<double> ratio{};           ///< second over first, where both are above 0
  std::optional<Ends<double>> interval{};  ///< the ratio's, 90 %

  /// The probability that the second is more; nothing where the interval is not known.
  std::optional<double> chance_of_more() const {
    if (!ratio || !interval) return std::nullopt;
    return chance_above_one(*ratio, *interval);
  }
};
/// A part of something in seconds or bytes.
struct PartPair {
  std::string name;
  double first = 0, second = 0;

  /// 0 where they differ by no more than rounding.
  double change() const {
    const double difference = second - first, size = first + second;
    return difference < 1e-9 * size && difference > -1e-9 * size ? 0 : difference;
  }
};

/// Differences between two predictions, and the mechanisms behind them.
struct Comparison {
  Compared first, second;
  std::vector<InputDifference> inputs{};
  std::vector<FigurePair> figures{};
  bool common_errors = false;  ///< ratios rest on both being off together; else on neither
  /// Factor of B's parts of a step, by which both train as many samples.
  double scale = 1;
  std::vector<PartPair> step{};         ///< compute, exposed communication, idle; in seconds
  std::vector<PartPair> collectives{};  ///< by kind, in flight; in seconds, likewise
  std::vector<PartPair> memory{};       ///< the fullest GPU's at its peak, by kind; in bytes
};

/// Sources of error are off by as much on both sides where both know theirs: what a source moves
/// both by cancels, and sources add in quadrature. Else both intervals count as independent.
Comparison compare(Compared first, Compared second);

/// Sums it up in a few sentences.
std::string answer(const Comparison& comparison);
/// `rehearse.compare/1`, two-space indented, keys in a fixed order.
std::string to_json(const Comparison& comparison);
nlohmann::ordered_json comparison_schema();
/// Its figures, a row for each.
std::string to_csv(const Comparison& comparison);
/// For people: columns fit `width`; ANSI colours if `color`.
std::string to_terminal(const Comparison& comparison, int width, bool color);

}  // namespace rehearse::inline view
