#include "cli/inputs.hpp"

#include <iostream>
#include <iterator>
#include <system_error>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "config/files_read.hpp"

namespace rehearse::inline cli {
namespace {

/// Messages call it so.
const char* const kStandardInput = "standard input";
/// As much as a file of YAML may have, and a byte that shows that there is more.
constexpr std::size_t kMostBytes = (std::size_t{16} << 20) + 1;

std::filesystem::path kept_standard_input() {
  FilesKept* kept = FilesKept::current();
  if (FilesKept::holds(kStandardInput))
    throw InputError(
        "standard input: error: - stands twice, and can be read once\n"
        "remedy: give one of the two as a file");
  std::string text(kMostBytes, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::cin.gcount()));
  kept->keep(kStandardInput, std::move(text));
  return kStandardInput;
}

bool is_bare(const std::filesystem::path& word) {
  return word.has_filename() && !word.has_parent_path() && !word.has_extension();
}

}  // namespace

std::filesystem::path input_file(const std::filesystem::path& word,
                                 const std::vector<std::string>& folders) {
  if (word == "-") return kept_standard_input();
  std::error_code ignored;
  if (!is_bare(word) || std::filesystem::exists(word, ignored)) return word;
  std::vector<std::string> all = folders;
  if (std::ranges::find(folders, "") != folders.end()) all.emplace_back("post_training");
  for (const std::string& folder : all) {
    const std::filesystem::path name =
        std::filesystem::path("scenarios") / folder / (word.string() + ".yaml");
    if (std::filesystem::exists(name, ignored)) return name;  // in a clone
    if (std::filesystem::exists(data_folder() / name, ignored)) return data_folder() / name;
  }
  return word;
}

}  // namespace rehearse::inline cli
