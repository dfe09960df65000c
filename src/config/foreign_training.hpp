#pragma once

#include <optional>
#include <string_view>

#include "config/foreign_file.hpp"

namespace rehearse::inline config {

/// A configuration, a command line or a log of a training framework; its remedy says the same in
/// keys of a scenario, with the values that stand in `text`.
std::optional<ForeignFile> foreign_training(std::string_view text);

}  // namespace rehearse::inline config
