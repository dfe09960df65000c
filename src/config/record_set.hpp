#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace rehearse::inline config {

/// A set of records is a file NAME.tar.xz, which stands for the folder that was packed into it.
/// What is in one is named as in a folder: `staleness/mnist_mlp.tar.xz/w4_hurts_1.real.json`. `tar
/// -xf` unpacks one, `tar -tf` lists what it holds; tests/validation/record_set.py packs one.
///
/// A set is unpacked once per thread, and children that are forked inherit it. All of these throw
/// InputError for a set that is damaged, or holds more than 128 MiB.

/// The text of a record; nothing where the name does not lead through a set. MissingError where the
/// set has no such record, with the name that is meant.
std::optional<std::string> record_text(const std::filesystem::path& file);

/// Whether there is such a file, on the disk or in a set.
bool is_input_file(const std::filesystem::path& file);

/// Whether there is such a folder, on the disk or in a set; a set itself is one.
bool is_input_folder(const std::filesystem::path& folder);

/// The files that lie in a folder, on the disk or in a set, in order; none where there is no
/// folder.
std::vector<std::filesystem::path> input_files(const std::filesystem::path& folder);

/// Remedy for a file that is not there: where its set is, what the set has; else `otherwise`.
std::string remedy_for_missing(const std::filesystem::path& file, const std::string& otherwise);

}  // namespace rehearse::inline config
