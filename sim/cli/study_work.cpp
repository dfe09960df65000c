#include "cli/study_work.hpp"
#include "report/views.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/printable.hpp"
#include "cli/measured_job.hpp"
#include "cli/simulate.hpp"
#include "engine/engine.hpp"
#include "study/content_key.hpp"

namespace rehearse {
namespace {

/// A scenario's report without what belongs to its file: the same content, the same text.
std::string predict(const Document& scenario, bool find_largest_batch) {
  const Prediction prediction = simulate(read_question(scenario), nullptr, find_largest_batch);
  auto report = nlohmann::ordered_json::parse(to_json(prediction.report));
  for (const char* key : {"schema", "scenario", "description"}) report.erase(key);
  return report.dump();
}

}  // namespace

Simulator simulator() {
  return {.program = program_identity(simgrid_version()),
          .read = [](const Document& scenario) { read_scenario(scenario); },
          .predict = [](const Document& scenario) { return predict(scenario, true); }};
}

Simulator quick_simulator() {
  Simulator quick = simulator();
  quick.program += ", without the largest batch";
  quick.predict = [](const Document& scenario) { return predict(scenario, false); };
  return quick;
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (std::filesystem::is_directory(folder)) return;
  throw MissingError(fmt::format("{}: error: cannot be made: {}", folder.string(),
                                 error ? error.message() : "it is a file"));
}

void take_up(ResultStore& store, const StudyIdentity& identity,
             const std::vector<StudyPoint>& points, bool quiet) {
  const auto before = store.identity();
  if (before && before->program != identity.program) {
    throw InputError(
        fmt::format("{}: error: results of another program\n  there: {}\n  here:  {}\nremedy: "
                    "--fresh begins anew; "
                    "--output FOLDER keeps both",
                    store.file().string(), before->program, identity.program));
  }
  if (before && before->study != identity.study) {
    throw InputError(
        fmt::format("{}: error: results of another study, \"{}\"\n"
                    "remedy: give another --output; --fresh replaces them",
                    store.file().string(), before->study));
  }
  if (before == identity && store.points() == points) return;
  if (before && !quiet) {
    tell("The study has changed; what is there of its points is kept.\n");
  }
  store.describe(identity, points);
}

}  // namespace rehearse
