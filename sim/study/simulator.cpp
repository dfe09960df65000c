#include "study/simulator.hpp"

#include <nlohmann/json.hpp>

#include "config/json/json_text.hpp"
#include "engine/engine.hpp"
#include "predict/measured_job.hpp"
#include "predict/predict.hpp"
#include "study/content_key.hpp"
#include "view/views.hpp"

namespace rehearse::inline study {
namespace {

/// A scenario's report without what belongs to its file: the same content, the same text.
std::string report_of(const Document& scenario, const Options& options) {
  const Prediction prediction = predict(read_question(scenario), options);
  auto report = parsed_ordered_json(to_json(prediction.report));
  for (const char* key : {"schema", "scenario", "description"}) report.erase(key);
  return json_text(report);
}

}  // namespace

Simulator simulator(bool intervals) {
  const Options options{.intervals = intervals, .memory_interval = true};
  return {.program = program_identity(simgrid_version()) + (intervals ? "" : ", without intervals"),
          .read = [](const Document& scenario) { read_scenario(scenario); },
          .predict = [options](const Document& scenario) { return report_of(scenario, options); }};
}

Simulator quick_simulator() {
  Simulator quick = simulator();
  quick.program += ", without the largest batch";
  quick.predict = [](const Document& scenario) {
    return report_of(scenario, {.find_largest_batch = false});
  };
  return quick;
}

}  // namespace rehearse::inline study
