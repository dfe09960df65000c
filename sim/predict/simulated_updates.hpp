#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "convergence/update_file.hpp"
#include "predict/predict.hpp"

namespace rehearse::inline prediction {

/// InputError for a strategy without a parameter server, whose updates could be written.
void check_has_updates(const Scenario& scenario);

/// The updates of a simulated run.
RunUpdates updates_of(const Scenario& scenario, const Prediction& prediction);

/// Simulates `count` more runs of the file's scenario, with the seeds after `seed`, each in a child
/// process; their updates as CSV, in order. `progress` is told how many are done.
std::vector<std::string> further_updates(const std::filesystem::path& file,
                                         const std::vector<std::string>& overrides,
                                         std::uint64_t seed, std::size_t count,
                                         const std::function<void(std::size_t done)>& progress);

}  // namespace rehearse::inline prediction
