#pragma once

#include <filesystem>

namespace rehearse {

/// The folder of the sources that this program was built from: what it ships (platforms, profiles,
/// recorded runs) is read from there.
std::filesystem::path source_folder();

}  // namespace rehearse
