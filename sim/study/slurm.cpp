#include "study/slurm.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>

#include "base/error.hpp"

namespace rehearse {
namespace {

constexpr int kNotFound = 127;  // of a shell

struct CommandEnd {
  int status = 0;
  std::string output;
};

/// Its standard error goes where ours goes.
CommandEnd run_in_shell(const std::string& command) {
  std::fflush(nullptr);
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw MissingError("error: no process for " + command);
  CommandEnd end;
  std::array<char, 4096> block{};
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), pipe)) {
    end.output.append(block.data(), count);
  }
  const int status = pclose(pipe);
  end.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return end;
}

}  // namespace

std::string shell_quoted(const std::string& word) {
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string slurm_script(const SlurmJob& job) {
  std::string text = "#!/bin/bash\n";
  const auto option = [&](const std::string& line) { text += "#SBATCH " + line + "\n"; };
  option("--job-name=" + job.name);
  option(fmt::format("--array=1-{}", job.tasks));
  option("--ntasks=1");
  option("--cpus-per-task=1");
  option(fmt::format("--output=\"{}\"", (job.folder / "slurm_%a.log").string()));
  for (const std::string& more : job.options) option(more);
  text += "exec";
  for (const std::string& word : job.command) text += " " + shell_quoted(word);
  return text + fmt::format(" --shard \"$SLURM_ARRAY_TASK_ID/{}\"\n", job.tasks);
}

std::string submit_to_slurm(const std::filesystem::path& script, bool wait) {
  const CommandEnd end = run_in_shell(
      fmt::format("sbatch --parsable {}{}", wait ? "--wait " : "", shell_quoted(script.string())));
  const std::string id = end.output.substr(0, end.output.find_first_of(";\n"));
  if (!id.empty()) return id;  // a status other than 0 is then that of a task
  if (end.status == kNotFound) {
    throw MissingError(
        "error: sbatch, which submits jobs to Slurm, is not there\nremedy: run this on a "
        "machine of the cluster, or start the shards yourself with --shard");
  }
  throw MissingError(
      fmt::format("error: sbatch refused the job (exit code {})\nremedy: its message is "
                  "above; the script is {}",
                  end.status, script.string()));
}

}  // namespace rehearse
