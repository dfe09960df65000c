#pragma once

#include <CLI/CLI.hpp>

#include "convergence/mitigation.hpp"
#include "data/dataset.hpp"

namespace rehearse::inline calibrate {

/// `--data`, `--format`, `--train-samples`, `--test-samples`, `--window`.
void add_data_options(CLI::App& app, DatasetOptions& data);

/// What a worker or a server does against stale gradients, whatever the order of updates.
void add_mitigation_options(CLI::App& app, Mitigation& mitigation);

}  // namespace rehearse::inline calibrate
