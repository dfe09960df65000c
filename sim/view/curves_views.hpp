#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convergence/run_ends.hpp"

namespace rehearse::inline view {

/// A run that trained, and the file that says so.
struct NamedCurve {
  std::string file;
  Curve curve;
  RunEnd end = {};  ///< report_of() fills it in
};

/// How runs end that differ by chance alone: by their seeds, or by the order of their updates.
struct CurvesReport {
  std::vector<NamedCurve> runs;  ///< one at least
  MeanEnd mean;                  ///< its standard error takes the runs of one seed as a cluster
  double median = 0;
  std::optional<FurtherRuns> further;
  Share failed;
};

/// InputError naming the file where a curve is of another training than the first: another model,
/// data, number of workers, batch, rate, momentum, weight decay or mitigation. A run has failed by
/// what the best of them ends with.
CurvesReport report_of(std::vector<NamedCurve> runs);

std::string to_table(const CurvesReport& report, int width, bool color);
/// `rehearse.curves/1`.
nlohmann::ordered_json json_view(const CurvesReport& report);
/// Its JSON Schema.
nlohmann::ordered_json curves_schema();
/// A row for each run.
std::string to_csv(const CurvesReport& report);

}  // namespace rehearse::inline view
