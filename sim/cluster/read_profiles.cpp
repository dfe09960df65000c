#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/data_folder.hpp"
#include "cluster/parts.hpp"
#include "config/record_set.hpp"

namespace rehearse::inline cluster {
namespace {

const char* const kNoCommProfile = "none";

std::filesystem::path comm_folder() { return platforms_folder() / "profiles" / "comm"; }

/// Names of platforms/profiles/comm, with `none` for the links alone.
std::vector<std::string> comm_profile_names() {
  std::vector<std::string> names = {kNoCommProfile};
  if (!std::filesystem::is_directory(comm_folder())) return names;
  for (const auto& entry : std::filesystem::directory_iterator(comm_folder())) {
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string read_comm_profile_file(const Value& value) {
  const std::filesystem::path named = value.is_scalar() ? value.as_string() : "";
  if (named.extension() == ".yaml") {
    const std::filesystem::path file = value.folder() / named;
    if (!is_input_file(file)) {
      value.fail(fmt::format("no file \"{}\"", file.string()),
                 "name a profile of collectives, as `rehearse import` or `rehearse calibrate comm` "
                 "writes it");
    }
    return file.string();
  }
  const std::string name = value.as_choice(comm_profile_names());
  return name == kNoCommProfile ? "" : (comm_folder() / (name + ".yaml")).string();
}

std::string read_compute_profiles_folder(const Value& value) {
  const std::filesystem::path folder = value.folder() / value.as_string();
  if (!is_input_folder(folder)) {
    value.fail(fmt::format("no folder \"{}\"", folder.string()),
               "name the folder of compute profiles that `rehearse calibrate compute` wrote on "
               "this GPU");
  }
  return folder.string();
}

std::filesystem::path compute_profiles_folder() {
  return platforms_folder() / "profiles" / "compute";
}

}  // namespace rehearse::inline cluster
