#pragma once

#include <string>
#include <vector>

#include "config/document.hpp"
#include "config/files_read.hpp"

namespace rehearse::inline study {

/// A value as a text that depends on nothing but what it says: maps sorted by their keys, scalars
/// as written, no places, no comments.
std::string canonical_text(const Value& value);

/// Key by which a scenario's result is stored, in 32 hexadecimal digits: the same for the same
/// program, the same text (a `description` apart) and the same contents of all files that reading
/// it took. Files of platforms/ count by their names in there, others by the names by which they
/// were opened; what was read twice counts once. 128 bits of XXH3.
std::string content_key(const std::string& program, const Document& scenario,
                        const std::vector<FilesRead::File>& files);

/// The same of any text.
std::string content_key(const std::string& text);

/// The running program: "rehearse 0.1.0, simgrid 3.32, build 5f0c...", where the build is a digest
/// of the executable file, so that what another compilation said is never taken for its own.
std::string program_identity(const std::string& simgrid_version);

}  // namespace rehearse::inline study
