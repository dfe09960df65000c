#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace rehearse {

/// A shipped file with one thing wrong, or other than it was.
struct Mutant {
  std::filesystem::path file;
  std::string change;      ///< "cluster.nodes: deleted"
  std::size_t number = 0;  ///< among those of its file
};

/// Of every key of a YAML file: without it, misspelt, with values of other kinds, and with other
/// values of its own kind.
std::vector<Mutant> mutants_of(const std::filesystem::path& file);
/// Written when it is wanted: all texts of a long file take gigabytes.
std::string text_of(const Mutant& mutant);

}  // namespace rehearse
