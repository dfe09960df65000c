#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>

#include "cli/commands.hpp"
#include "cli/simulate.hpp"
#include "convergence/update_file.hpp"

namespace rehearse {

/// InputError for a strategy without a parameter server, whose updates could be written.
void check_has_updates(const Scenario& scenario);

/// The updates of a simulated run.
RunUpdates updates_of(const Scenario& scenario, const Prediction& prediction);

/// Where trace k is written: `updates_2.csv` beside `updates.csv`, which is trace 0.
std::filesystem::path trace_file(const std::filesystem::path& first, std::size_t trace);

/// Simulates the traces after the first, run.seed plus 1, 2, ..., each in a child process, and
/// writes their updates beside the first's. `progress` is told how many are done.
void write_further_traces(const RunCommand& command, const Scenario& scenario,
                          const std::function<void(std::size_t done)>& progress);

}  // namespace rehearse
