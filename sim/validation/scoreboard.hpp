#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "validation/summary.hpp"

namespace rehearse::inline validation {

/// How predictions of one kind came out for the held-out cases of a line. A rate counts as the time
/// that it takes, so that an error above 0 always means too much time or memory.
struct ScoreLine {
  Facets of;
  std::size_t cases = 0;
  double mean = 0, median = 0, p90 = 0, most = 0;  ///< of absolute relative errors
  double bias = 0;                                 ///< the mean of the errors with their signs
  Coverage coverage = {};
  std::optional<double> half_width = {};  ///< the median of the intervals' half-widths
  /// The mean interval score in ln (Gneiting and Raftery 2007, equation 43, at 10 %): the width,
  /// and 20 times how far beyond an end the measured one lies. Neither wide nor narrow intervals
  /// cheat it.
  std::optional<double> score = {};
};

/// The lines of one kind of number. A line has at least kLeastCases; smaller ones of a GPU are one
/// line, and GPUs with fewer are one, too. CPUs are one line.
struct ScoreTable {
  std::vector<ScoreLine> lines;  ///< by GPU, framework and work; that of all GPUs is the last
  std::optional<ScoreLine> cpus = {};
};
inline constexpr std::size_t kLeastCases = 5;

/// The relation of sets to the model's fits, how their rows came out, and which sets these are.
struct RelationLine {
  Relation relation = Relation::never_seen;
  ScoreLine time = {}, memory = {};
  std::vector<std::string> sets = {};
};

/// A case whose measured number lies far outside of its interval.
struct Outlier {
  std::string set, name, metric;
  double error = 0;
  std::string cause;  ///< the case's note; empty where nobody knows
};

struct Scoreboard {
  ScoreTable time, memory;
  std::vector<RelationLine> relations = {};
  std::vector<FitBin> reliability = {};
  FitSummary fits = {};  ///< over all sets; `set` is empty
  std::size_t layouts = 0, pairs = 0, right_pairs = 0;
  double tau = 0, regret = 0;          ///< means over the choices among layouts
  std::vector<Outlier> outliers = {};  ///< the farthest first
};

Scoreboard scoreboard_of(const Validation& validation);

}  // namespace rehearse::inline validation
