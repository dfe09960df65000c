#include "predict/synchronous_part.hpp"

#include <fmt/format.h>

#include "base/number.hpp"
#include "predict/headline_run.hpp"

namespace rehearse::inline prediction {

SynchronousPart::SynchronousPart(const Scenario& scenario) {
  const ParameterServer* const server = server_in(scenario.strategy);
  if (server == nullptr || server->switch_share == 0) return;
  child_.emplace([&scenario] {
    Scenario in_step = scenario;
    ParameterServer& options = *server_in(in_step.strategy);
    options.staleness = 0;
    options.warmup_rounds = 0;
    options.switch_share = 0;
    return fmt::format("{:.17g}", simulated_headline(in_step, machine_of(in_step)).samples_per_s);
  });
}

std::optional<double> SynchronousPart::samples_per_s() {
  if (!child_) return std::nullopt;
  return decimal_number(child_->result());
}

}  // namespace rehearse::inline prediction
