#include "predict/largest_batch.hpp"

#include <string>

#include "report/measures.hpp"

namespace rehearse::inline prediction {

LargestBatch::LargestBatch(const Scenario& scenario, const Options& options) {
  if (!options.find_largest_batch || !options.memory) return;
  const auto schedule_at = schedule_at_batch(scenario);
  if (!schedule_at) return;
  child_.emplace([&] {
    const auto batch = largest_batch_that_fits(scenario, schedule_at, *options.memory);
    return batch ? std::to_string(*batch) : "";
  });
}

std::optional<std::int64_t> LargestBatch::found() {
  const std::string text = child_->result();
  if (text.empty()) return std::nullopt;
  return std::stoll(text);
}

}  // namespace rehearse::inline prediction
