#pragma once

#include <string>
#include <vector>

namespace rehearse::inline base {

/// Names of the tables NAME.yaml in `folder` of platforms_folder() and of `platforms` in
/// data_folder(), sorted: a table that is dropped there is found. platforms_path() has their files.
std::vector<std::string> tables_in(const std::string& folder);

}  // namespace rehearse::inline base
