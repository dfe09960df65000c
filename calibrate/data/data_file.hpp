#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace rehearse::inline calibrate {

using DataBytes = std::vector<std::uint8_t>;

/// The bytes of a file of data; of one whose name ends in .gz, what is compressed in it.
/// MissingError where it cannot be read; InputError where it is no whole gzip file, or larger than
/// 4 GiB.
DataBytes read_data_file(const std::filesystem::path& file);

/// `folder/name`, or `folder/name.gz` where only that is there; empty where neither is.
std::filesystem::path find_data_file(const std::filesystem::path& folder, const std::string& name);

}  // namespace rehearse::inline calibrate
