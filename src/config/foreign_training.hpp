#pragma once

#include <optional>
#include <string_view>

#include "config/foreign_file.hpp"

namespace rehearse::inline config {

/// A configuration, a command line or a log of a training framework. `first` is the first character
/// that is no blank.
std::optional<ForeignFile> foreign_training(std::string_view text, char first);
/// The log alone, whose first line that tells may stand far down.
std::optional<ForeignFile> foreign_log(std::string_view text);

}  // namespace rehearse::inline config
