#include <fmt/format.h>

#include "scenario/sections.hpp"

namespace rehearse::inline scenario {

void apply_micro_batch_size(const Value& strategy, Scenario& scenario) {
  const std::optional<Value> said = strategy.as_map().optional("micro_batch_size");
  int* const micro_batches = micro_batches_of(scenario.strategy);
  if (!said || micro_batches == nullptr) return;
  const std::int64_t size = said->as_integer(1, kLargestBatch);
  if (scenario.batch_per_gpu % size != 0)
    said->fail(
        fmt::format("model.batch_per_gpu {} is no multiple of {}", scenario.batch_per_gpu, size),
        fmt::format("a divisor of {}", scenario.batch_per_gpu));
  *micro_batches = static_cast<int>(scenario.batch_per_gpu / size);
  scenario.batch_per_gpu = size;
  scenario.assumptions.push_back(
      fmt::format("strategy.micro_batch_size: a replica's batch in {} micro-batches of {}",
                  *micro_batches, size));
}

void apply_main_gradients(const Framework& framework, Scenario& scenario) {
  const auto element = main_gradient_element(scenario.strategy, scenario.precision);
  if (!element) return;
  const bool wide = *element == Bytes(4);
  scenario.optimizer.wide_gradients = wide && has_master_weights(scenario.precision);
  scenario.assumptions.push_back(fmt::format("gradients: added up and exchanged in {}, as {} does",
                                             wide ? "fp32" : "16 bits", framework.title()));
}

}  // namespace rehearse::inline scenario
