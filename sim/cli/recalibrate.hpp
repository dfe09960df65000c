#pragma once

#include <filesystem>
#include <vector>

#include "validation/cases.hpp"

namespace rehearse::inline cli {

/// Solves the GPUs' speed that each measured step of these cases asks for, and writes the machines
/// with their geometric mean to `site`; told are the mean, the spread, and steps that depend on
/// another number more. InputError where nothing says it, or machines differ.
void recalibrate(const std::vector<CaseFile>& files, const std::filesystem::path& site);

}  // namespace rehearse::inline cli
