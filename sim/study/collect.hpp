#pragma once

#include <filesystem>
#include <vector>

#include "study/result_store.hpp"

namespace rehearse::inline study {

/// The file of results in an output folder: of the whole study, or of one shard.
std::filesystem::path results_file(const std::filesystem::path& folder);
std::filesystem::path shard_file(const std::filesystem::path& folder, std::size_t index,
                                 std::size_t count);

/// Files of all shards that are there, in the order of their names.
std::vector<std::filesystem::path> shard_files(const std::filesystem::path& folder);

/// The files themselves, and of a folder those of its shards, or else its results. MissingError
/// where there is none.
std::vector<std::filesystem::path> result_files(const std::vector<std::filesystem::path>& given);

/// Adds the outcomes of every file to `target`, which takes the study of the first where it has
/// none. InputError if they are not all of the same study, points and program, or if two disagree
/// about a point.
void collect(ResultStore& target, const std::vector<std::filesystem::path>& files);

}  // namespace rehearse::inline study
