#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "study/result_store.hpp"

namespace rehearse::inline study {

/// A sweep as an array job of Slurm: task i of n has shard i of n.
struct SlurmJob {
  std::string name;                  ///< the job's; other letters than A-Z, digits and ._- become _
  std::size_t tasks = 1;             ///< the array's
  std::filesystem::path folder;      ///< for the logs, reached by all nodes
  std::vector<std::string> options;  ///< more options of sbatch, "--partition=cpu"
  std::vector<std::string> command;  ///< a task's, before `--shard I/N`
};

/// The batch script. InputError where a line end would put a line into it.
std::string slurm_script(const SlurmJob& job);

/// Submits a script and returns the job's id; with `wait` once all tasks have ended, in whatever
/// way. MissingError if there is no sbatch, or it refuses.
std::string submit_to_slurm(const std::filesystem::path& script, bool wait);

/// Runs what a store lacks as an array job, of at most as many tasks as there are points, and
/// brings its results into the store: nothing is left to do. Without `wait` the id of the job,
/// whose results are to be collected. Error (fail_as_stopped) where a signal ended the waiting.
std::optional<std::string> sweep_by_slurm(ResultStore& store, SlurmJob job, bool wait);

}  // namespace rehearse::inline study
