#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace rehearse {

/// A sweep as an array job of Slurm: task i of n has shard i of n.
struct SlurmJob {
  std::string name;                  ///< of the job; what is no letter, digit or ._- becomes _
  std::size_t tasks = 1;             ///< of the array
  std::filesystem::path folder;      ///< for the logs, reached by all nodes
  std::vector<std::string> options;  ///< more options of sbatch, "--partition=cpu"
  std::vector<std::string> command;  ///< what a task runs, before `--shard I/N`
};

/// The batch script. InputError where a line end would put a line into it.
std::string slurm_script(const SlurmJob& job);

/// Submits a script and returns the job's id; with `wait` once all tasks have ended, in whatever
/// way. MissingError if there is no sbatch, or it refuses.
std::string submit_to_slurm(const std::filesystem::path& script, bool wait);

}  // namespace rehearse
