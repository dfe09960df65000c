#pragma once

#include <CLI/CLI.hpp>

#include "convergence/mitigation.hpp"
#include "data/dataset.hpp"

namespace rehearse::inline calibrate {

/// `--data`, `--format`, `--train-samples`, `--test-samples`, `--window`.
void add_data_options(CLI::App& app, DatasetOptions& data);

/// Adds the options of a worker's or a server's measures against stale gradients, whatever the
/// order of updates.
void add_mitigation_options(CLI::App& app, Mitigation& mitigation);

}  // namespace rehearse::inline calibrate
