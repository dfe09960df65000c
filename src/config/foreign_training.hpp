#pragma once

#include <optional>
#include <string_view>

#include "config/foreign_file.hpp"

namespace rehearse::inline config {

/// A configuration or a command line of a training framework, as platforms/signs.yaml tells
/// them, else a log of one. Without a format it is none that is read.
std::optional<ForeignFile> foreign_training(std::string_view text);
/// The log alone, whose first line that tells may stand far down.
std::optional<ForeignFile> foreign_log(std::string_view text);

}  // namespace rehearse::inline config
