#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace rehearse::inline cli {

/// The file that a word on the command line means. "-" is standard input: its text is kept
/// (FilesKept, which must live) under the name that this returns. A bare word that is no file here
/// names one that Rehearse ships, in one of `folders` of its `scenarios/` ("" for the scenarios
/// themselves): "toy_ddp". Any other word is the file itself, whether or not it is there.
std::filesystem::path input_file(const std::filesystem::path& word,
                                 const std::vector<std::string>& folders = {""});

}  // namespace rehearse::inline cli
