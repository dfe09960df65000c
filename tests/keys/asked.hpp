#pragma once

#include <map>
#include <string>

#include "config/key_log.hpp"

namespace rehearse {

/// What the readers of files ask for, noted while they read what is shipped and `settings.hpp`; by
/// the path that the reference would have.
const std::map<std::string, KeyLog::Use>& asked();

}  // namespace rehearse
