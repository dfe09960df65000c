#include "base/data_folder.hpp"

#include <cstdlib>
#include <string>

#include "base/error.hpp"

namespace rehearse::inline base {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMark = "platforms/gpus.yaml";

std::string& prefix() {
  static std::string known;
  return known;
}

bool has_data(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / kMark, error);
}

/// Of the running program; empty where the system does not say.
fs::path program_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

fs::path find_data() {
  if (const char* named = std::getenv("REHEARSE_DATA")) {
    if (has_data(named)) return named;
    throw MissingError(std::string("error: REHEARSE_DATA names ") + named + ", which has no " +
                       kMark + "\nremedy: name the folder that holds platforms/ and scenarios/");
  }
  const fs::path program = program_folder();
  if (const fs::path shared = program.parent_path() / "share/rehearse"; has_data(shared))
    return shared;
  for (fs::path folder = program; folder.has_relative_path(); folder = folder.parent_path())
    if (has_data(folder)) return folder;
  if (const fs::path installed = fs::path(prefix()) / "share/rehearse"; has_data(installed))
    return installed;
  throw MissingError(std::string("error: ") + kMark + " is not found beside the program in " +
                     program.string() +
                     "\nremedy: set REHEARSE_DATA to the folder that holds platforms/ and "
                     "scenarios/");
}

}  // namespace

bool note_prefix(const char* folder) {
  prefix() = folder;
  return true;
}

fs::path data_folder() {
  static const fs::path found = find_data();
  return found;
}

fs::path platforms_folder() {
  const char* const folder = std::getenv("REHEARSE_PLATFORMS");
  if (folder != nullptr && *folder != '\0') return folder;
  return data_folder() / "platforms";
}

fs::path platforms_path(const std::string& name) {
  const fs::path own = platforms_folder() / name;
  std::error_code error;
  return fs::exists(own, error) ? own : data_folder() / "platforms" / name;
}

}  // namespace rehearse::inline base
