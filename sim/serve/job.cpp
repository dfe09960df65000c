#include "serve/job.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "config/whole_file.hpp"
#include "serve/program_run.hpp"

namespace rehearse::inline serve {
namespace {

constexpr std::size_t kJobsKept = 8;

/// The last line that is not empty.
std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of("\r\n ");
  if (end == std::string::npos) return "";
  const std::size_t begin = text.find_last_of("\r\n", end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? -1 : begin));
}

void replace(std::string& word, const std::string& what, const std::string& with) {
  if (const std::size_t at = word.find(what); at != std::string::npos)
    word.replace(at, what.size(), with);
}

}  // namespace

OwnFolder::OwnFolder()
    : name_((std::filesystem::temp_directory_path() / "rehearse-XXXXXX").string()) {
  if (mkdtemp(name_.data()) == nullptr)
    throw MissingError(std::string("no folder for results can be made: ") + std::strerror(errno));
}

OwnFolder::~OwnFolder() {
  std::error_code ignored;  // what cannot be removed stays among temporary files
  std::filesystem::remove_all(name_, ignored);
}

Jobs::~Jobs() {
  for (const auto& [number, job] : jobs_) job->stop = true;
  for (const auto& [number, job] : jobs_)
    if (job->thread.joinable()) job->thread.join();
}

std::size_t Jobs::start(JobTask task) {
  const std::lock_guard lock(mutex_);
  for (const auto& [number, job] : jobs_) {
    const std::lock_guard inner(job->mutex);
    if (job->state == "running")
      throw InputError("one search runs already: cancel it, or wait until it ends");
  }
  while (jobs_.size() >= kJobsKept) {
    jobs_.begin()->second->thread.join();
    jobs_.erase(jobs_.begin());
  }
  const std::size_t number = next_++;
  const auto job = jobs_[number] = std::make_shared<Job>();
  job->thread =
      std::thread([job, task = std::move(task), time = time_] { work(*job, task, time); });
  return number;
}

void Jobs::work(Job& job, JobTask task, std::chrono::milliseconds time) {
  const auto end = [&](const char* state, const std::string& text, std::string page = "") {
    const std::lock_guard lock(job.mutex);
    job.state = state;
    job.text = text;
    job.page = std::move(page);
  };
  try {
    const OwnFolder folder;
    const std::string page = folder.name() + "/page.html";
    for (std::string& word : task.words) {
      replace(word, kPageWord, page);
      replace(word, kFolderWord, folder.name() + "/results");
    }
    const ProgramRun run = run_program_with(
        task.words, task.input,
        {.time = time, .stop = &job.stop, .on_errors = [&](const std::string& errors) {
           const std::lock_guard lock(job.mutex);
           job.progress = last_line(errors);
         }});
    if (job.stop)
      end("cancelled", "It was cancelled.");
    else if (run.timed_out)
      end("failed", "It took too long. A smaller one ends.");
    else if (run.status != 0)
      end("failed", run.errors);
    else
      end("done", run.output, read_whole_file(page));
  } catch (const Error& wrong) {
    end("failed", wrong.what());
  }
}

std::shared_ptr<Jobs::Job> Jobs::job(std::size_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(number);
  return found == jobs_.end() ? nullptr : found->second;
}

nlohmann::json Jobs::state(std::size_t number) const {
  const auto one = job(number);
  if (!one) return nullptr;
  const std::lock_guard lock(one->mutex);
  return {{"state", one->state}, {"progress", one->progress}, {"text", one->text}};
}

std::string Jobs::page(std::size_t number) const {
  const auto one = job(number);
  if (!one) return "";
  const std::lock_guard lock(one->mutex);
  return one->page;
}

void Jobs::cancel(std::size_t number) {
  if (const auto one = job(number)) one->stop = true;
}

}  // namespace rehearse::inline serve
