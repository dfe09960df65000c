#pragma once

#include <string>
#include <vector>

namespace rehearse::inline scenario {

/// Kinds of things whose names a file can say: "models", "clusters", "gpus", ...
const std::vector<std::string>& kinds_of_names();

/// The names of one of them, a line each with what it is. MissingError, InputError of shipped
/// files.
std::string names_text(const std::string& kind);

}  // namespace rehearse::inline scenario
