#include "study/slurm.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/error.hpp"
#include "base/quoting.hpp"
#include "base/stop_signal.hpp"
#include "config/whole_file.hpp"
#include "study/collect.hpp"
#include "study/study_view.hpp"

namespace rehearse::inline study {
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

/// A name that needs no quotes anywhere.
std::string plain(std::string name) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  for (char& c : name) c = kPlain.find(c) == std::string_view::npos ? '_' : c;
  return name;
}

/// The name of a log for sbatch, which knows quotes, backslashes and patterns such as %a.
std::string log_name(const std::filesystem::path& folder) {
  std::string text = "\"";
  for (const char c : folder.string()) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '%' ? "%%" : std::string(1, c);
  }
  return text + "/slurm_%a.log\"";
}

}  // namespace

std::string slurm_script(const SlurmJob& job) {
  std::string text = "#!/bin/bash\n";
  const auto option = [&](const std::string& line) {
    if (line.find('\n') != std::string::npos)
      throw InputError("rehearse: error: a line of a Slurm script cannot hold a line end: " + line);
    text += "#SBATCH " + line + "\n";
  };
  option("--job-name=" + plain(job.name));
  option(fmt::format("--array=1-{}", job.tasks));
  option("--ntasks=1");
  option("--cpus-per-task=1");
  option("--output=" + log_name(job.folder));
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

std::optional<std::string> sweep_by_slurm(ResultStore& store, SlurmJob job, bool wait) {
  const StudyCount count = count_points(store);
  if (count.to_do == 0) return std::nullopt;
  job.tasks = std::min(job.tasks, count.points);
  const std::filesystem::path script = job.folder / "slurm.sbatch";
  write_whole_file(script, slurm_script(job));
  const std::string id = submit_to_slurm(script, wait);
  if (!wait) return id;
  if (stop_signal() != 0) {
    fail_as_stopped(fmt::format("job {} may go on; rehearse collect {} brings its results", id,
                                shell_quoted(job.folder.string())));
  }
  for (std::size_t i = 1; i <= job.tasks; ++i) {
    const std::filesystem::path shard = shard_file(job.folder, i, job.tasks);
    if (std::filesystem::exists(shard)) collect(store, {shard});
  }
  return std::nullopt;
}

}  // namespace rehearse::inline study
