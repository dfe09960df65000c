#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "profile/comm_points.hpp"

namespace rehearse::inline profile {

/// Facts that a log leaves out, and which of its two times to take.
struct NcclTestsOptions {
  std::optional<CollectiveKind> collective = {};  ///< where the log does not name its program
  std::optional<int> ranks = {};                  ///< where the log has no `# Rank` lines
  std::optional<int> nodes = {};                  ///< likewise
  bool in_place = false;  ///< the in-place columns instead of the out-of-place ones
};

/// Reads one output of nccl-tests (all_reduce_perf, all_gather_perf, reduce_scatter_perf,
/// broadcast_perf, reduce_perf, alltoall_perf, sendrecv_perf): what it prints, in the layout of any
/// version since 2.0 (the columns are those of the table's own head), with whatever launchers write
/// before and between its lines; its JSON report (`-J`, since 2.17); or rccl-tests' JSON or CSV
/// (`-Z`). A log of several tests gives the points of all of them. Rows of size 0 are left out, and
/// damaged rows (torn by another rank's output, cut at the log's end) while they are one, or at
/// most a tenth.
///
/// MissingError if the file cannot be read; InputError `file:line:column: error: ...` for more
/// damaged rows, wrong results (#wrong), a busbw that contradicts the ranks, processes that ran
/// each alone, and for a log that does not say which collective it measured or on how many ranks.
CommPoints read_nccl_tests(const std::filesystem::path& file, const NcclTestsOptions& options = {});

}  // namespace rehearse::inline profile
