#pragma once

#include <filesystem>
#include <string>

namespace rehearse::inline config {

/// The bytes of a file. MissingError if it cannot be read; InputError beyond 512 MiB.
std::string read_whole_file(const std::filesystem::path& file);

/// Writes a file so that a reader, or a crash, finds the old one or the whole new one: to a
/// temporary file beside it that is on the disk before it is renamed. Folders on the way are made.
/// MissingError if it cannot be written; the old file stays.
void write_whole_file(const std::filesystem::path& file, const std::string& text);

/// Removes what writers of this file left beside it when they were killed. Nobody else may be
/// writing it.
void remove_temporaries(const std::filesystem::path& file);

/// The same error before work whose result is to be written, where that can be seen by now.
void check_can_write(const std::filesystem::path& file);

}  // namespace rehearse::inline config
