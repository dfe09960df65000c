#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "predict/predict.hpp"

namespace rehearse::inline prediction {

/// Memory that the plan needs of its tightest GPU, without the largest batch; nothing where nothing
/// is known of it.
std::optional<MemoryReport> memory_of(const Scenario& scenario, const Machine& machine);

/// Simulates each single change of a scenario, with the overrides that it was read with, in a child
/// process; those that fit, without their prices. To be called before this process simulates.
/// `ended`, where given, is called with the numbers of changes that are done and of all.
std::vector<FittingChange> fitting_changes(
    const std::filesystem::path& file, const std::vector<std::string>& overrides,
    const std::function<void(std::size_t done, std::size_t all)>& ended);

/// Puts them into the report with their prices, in the order of MemoryReport::would_fit; of a run
/// that fits only those that take less.
void add_advice(std::vector<FittingChange> changes, Report& report);

struct AdviceOptions {
  std::filesystem::path file;  ///< that the scenario was read from, and how
  std::vector<std::string> overrides;
  bool always = false;                                             ///< of a run that fits, too
  bool intervals = true;                                           ///< as Options::intervals
  std::function<void(std::size_t done, std::size_t all)> tried{};  ///< as `ended` above
  std::function<void(double share)> progress{};                    ///< as Options::progress
};
/// predict(), with the changes under which the scenario takes less memory, where it does not fit.
Prediction predict_with_advice(const Scenario& scenario, const AdviceOptions& options);

}  // namespace rehearse::inline prediction
