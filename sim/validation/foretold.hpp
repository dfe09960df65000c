#pragma once

#include <optional>
#include <string>
#include <vector>

#include "validation/compare.hpp"

namespace rehearse::inline validation {

/// Result that one replay, or the forecast, foretells for the end of a real run.
struct Foretold {
  std::string by;
  std::string means = {};  ///< of a forecast: "forecast", whatever it was fitted to
  bool failed = false;
  double accuracy = 0;              ///< share of the test samples; a forecast's is a median
  std::optional<double> mean = {};  ///< of a forecast: of the runs that train
  std::optional<SaidOdds> odds = {};
  std::optional<Ends<double>> interval = {};
  /// Points of the recorded curve, and those of them that the intervals about the forecast curve
  /// hold.
  std::size_t points = 0, points_inside = 0;
};

/// Replays, and the accuracy of the report `rehearse.report/1` where the case asks for a forecast.
/// A forecast fails where its verdict is that the run diverges.
std::vector<Foretold> foretold(const LearnedRun& run, const std::string& report);

}  // namespace rehearse::inline validation
