#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "foreign/format.hpp"
#include "framework/framework.hpp"

namespace rehearse::inline foreign {

/// Settings of an export, in the order in which they are written.
using SettingList = std::vector<std::pair<std::string, std::string>>;

/// What an export is, once it keeps to its framework's own checks.
struct CheckedSettings {
  SettingList settings;
  std::map<std::string, std::string> environment;
  std::vector<std::string> notes;  ///< what differs from the scenario, or from other versions
};

/// Applies Format::checks. A scenario that names no version gets settings that its usual version
/// and every later one take. `said` are the keys that the scenario itself has, as dotted paths;
/// `file` is its name. InputError where its version refuses what nothing here mends.
CheckedSettings keep_to_checks(SettingList settings, const Format& format,
                               const FrameworkChoice& framework, bool names_version,
                               const std::set<std::string>& said, const std::string& file);

}  // namespace rehearse::inline foreign
