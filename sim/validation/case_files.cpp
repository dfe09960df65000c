#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "validation/cases.hpp"

namespace rehearse::inline validation {
namespace {

bool is_case_file(const std::filesystem::path& file) {
  if (file.extension() != ".yaml" || !std::filesystem::is_regular_file(file)) return false;
  if (file.filename() == "cases.yaml") return true;
  const auto document = Document::load(file);
  if (!document->root().is_map()) return false;
  const Map root = document->root().as_map();
  return root.has("source") && root.has("cases");
}

std::vector<std::filesystem::path> case_files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (is_case_file(entry.path())) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// `all`, or a shipped set's name: no path, and nothing is there.
bool is_name(const std::filesystem::path& path) {
  return !path.has_parent_path() && !path.has_extension() && !std::filesystem::exists(path);
}

bool takes_long(const std::filesystem::path& file) {
  const auto document = Document::load(file);
  return document->root().is_map() && document->root().as_map().bool_or("takes_long", false);
}

std::vector<std::filesystem::path> shipped_set(const std::string& name) {
  std::vector<std::filesystem::path> shipped = shipped_case_files();
  if (name == "all") {
    std::erase_if(shipped, takes_long);
    return shipped;
  }
  std::vector<std::string> names;
  for (const std::filesystem::path& file : shipped) {
    names.push_back(set_name(file));
    if (names.back() == name) return {file};
  }
  const std::string near = nearest(name, names);
  throw InputError(
      fmt::format("rehearse: error: no shipped set, file or folder \"{}\"\nremedy: {}", name,
                  near.empty() ? fmt::format("known sets: all, {}", fmt::join(names, ", "))
                               : fmt::format("did you mean \"{}\"?", near)));
}

void append(const std::vector<std::filesystem::path>& found,
            std::vector<std::filesystem::path>& files) {
  files.insert(files.end(), found.begin(), found.end());
}

}  // namespace

std::string set_name(const std::filesystem::path& file) {
  if (file.filename() != "cases.yaml") return file.stem().string();
  return std::filesystem::absolute(file).parent_path().filename().string();
}

std::vector<std::filesystem::path> case_files(const std::vector<std::filesystem::path>& given) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& path : given) {
    if (is_name(path)) {
      append(shipped_set(path.string()), files);
      continue;
    }
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    const std::vector<std::filesystem::path> found = case_files_in(path);
    if (found.empty()) {
      throw MissingError(path.string() +
                         ": error: no case file in this folder\n"
                         "remedy: name a folder with a cases.yaml, or the file itself");
    }
    append(found, files);
  }
  return files;
}

std::vector<std::filesystem::path> shipped_case_files() {
  const char* const folder = std::getenv("REHEARSE_VALIDATION");
  if (folder != nullptr && *folder != '\0') return case_files({folder});
  const std::filesystem::path sources = data_folder();
  std::vector<std::filesystem::path> files;
  for (const char* name : {"scenarios/validation", "tests/validation"}) {
    if (!std::filesystem::is_directory(sources / name)) continue;
    append(case_files_in(sources / name), files);
  }
  if (!files.empty()) return files;
  throw MissingError(sources.string() +
                     ": error: no shipped case files there\n"
                     "remedy: set REHEARSE_VALIDATION to their folder, or name a case file");
}

}  // namespace rehearse::inline validation
