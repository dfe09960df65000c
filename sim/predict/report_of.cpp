#include "predict/report_of.hpp"

#include "base/child_process.hpp"
#include "view/views.hpp"

namespace rehearse::inline prediction {

Report report_of(const Scenario& scenario, const Options& options) {
  Options quiet = options;
  quiet.progress = nullptr;
  return report_from_json(
      in_child_process([&] { return to_json(predict(scenario, quiet).report); }));
}

}  // namespace rehearse::inline prediction
