#include "base/tables.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/data_folder.hpp"

namespace rehearse::inline base {

std::vector<std::string> tables_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& place : {platforms_folder(), data_folder() / "platforms"}) {
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(place / folder, missing))
      if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

}  // namespace rehearse::inline base
