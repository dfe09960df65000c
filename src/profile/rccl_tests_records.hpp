#pragma once

#include <string>

#include "profile/nccl_tests.hpp"

namespace rehearse::inline profile {

/// Whether a text is what rccl-tests writes with `-Z json` or `-Z csv`: a list of records, one a
/// size and half (in place or not), each with its collective and its numbers of nodes and ranks.
bool is_rccl_tests_records(const std::string& text);

/// Reads it. `file` names it in errors. Times are in microseconds, as in the table that it prints.
/// InputError for a record without what is needed, wrong results, and a busbw that goes with
/// neither number of ranks.
CommPoints read_rccl_tests_records(const std::string& text, const std::string& file,
                                   const NcclTestsOptions& options);

}  // namespace rehearse::inline profile
