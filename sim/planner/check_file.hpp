#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace rehearse::inline planner {

/// A file of ours, read without a simulation.
struct CheckedFile {
  std::string kind;            ///< "a scenario", "a plan of 12 candidates"
  std::optional<Error> wrong;  ///< all that is wrong with it
};
/// Its keys decide as what it is read: a scenario, a study, a plan, a cluster, a
/// profile.
CheckedFile check_file(const std::filesystem::path& file);

}  // namespace rehearse::inline planner
