#pragma once

#include <filesystem>

#include "profile/comm_points.hpp"

namespace rehearse::inline profile {

/// Reads a table of measured points: CSV (RFC 4180 quotes; lines that begin with `#` are comments)
/// whose head names the columns hardware, ranks, nodes, collective, bytes, time_us, and source
/// where it is known, in any order. All rows are of one hardware. MissingError if the file cannot
/// be read; InputError `file:line:column: error: ...` otherwise.
CommPoints read_points(const std::filesystem::path& file);

}  // namespace rehearse::inline profile
