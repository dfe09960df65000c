#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rehearse {

/// A shipped file with one thing wrong, or other than it was.
struct Mutant {
  std::filesystem::path file;
  std::string change;  ///< "cluster.nodes: deleted"
  std::string text;
};

/// Of every key of a YAML file: without it, misspelt, with values of other kinds, and with other
/// values of its own kind.
std::vector<Mutant> mutants_of(const std::filesystem::path& file);

}  // namespace rehearse
