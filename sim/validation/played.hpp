#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "validation/compare.hpp"

namespace rehearse::inline validation {

/// The cases of these sets (case_files) that have one of the metrics and one of the names
/// (only_cases); of no sets, all shipped ones, but four of each set of recorded runs. InputError,
/// MissingError as the functions of cases.hpp say.
std::vector<CaseFile> read_cases(const std::vector<std::filesystem::path>& sets,
                                 const std::vector<std::string>& metrics,
                                 const std::vector<std::string>& names = {});

/// The report `rehearse.report/1` of a case's scenario, as it was run: of a recorded run to its
/// last step, and of one that learned with what it learned from. Once per process (predict()).
std::string simulated_report(const ValidationCase& one);

struct PlayOptions {
  std::size_t jobs = 1;  ///< child processes side by side
  std::function<void(std::size_t done, std::size_t all)> progress = {};
};
/// Predicts every case, and compares.
Validation play(std::vector<CaseFile> cases, const PlayOptions& options);

}  // namespace rehearse::inline validation
