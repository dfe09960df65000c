#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>
#include <vector>

namespace rehearse::inline serve {

/// What takes longer than an answer: this program's words and the text of its standard input. It
/// writes a page, whose file `words` name as kPageWord, and keeps results in a folder, kFolderWord.
struct JobTask {
  std::vector<std::string> words;
  std::string input{};
};
constexpr const char* kPageWord = "{page}";
constexpr const char* kFolderWord = "{folder}";

/// One plan or sweep at a time, in a process beside the server, with its progress. The last ones
/// are kept. Safe from several threads.
class Jobs {
 public:
  explicit Jobs(std::chrono::milliseconds time) : time_(time) {}
  /// Ends what runs.
  ~Jobs();
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  /// The number of the new job. InputError while another runs.
  std::size_t start(JobTask task);
  /// `{state, progress, text}`, where state is running, done, failed or cancelled; progress is the
  /// last line of it, and text the answer, or why there is none. Null where no job has this number.
  nlohmann::json state(std::size_t number) const;
  /// The page that a job has written; empty where there is none.
  std::string page(std::size_t number) const;
  /// Ends a job. Nothing where it is over, or never was.
  void cancel(std::size_t number);

 private:
  struct Job {
    mutable std::mutex mutex;
    std::string state = "running", progress{}, text{}, page{};
    std::atomic<bool> stop = false;
    std::thread thread{};
  };

  static void work(Job& job, JobTask task, std::chrono::milliseconds time);
  std::shared_ptr<Job> job(std::size_t number) const;

  std::chrono::milliseconds time_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::shared_ptr<Job>> jobs_;
  std::size_t next_ = 0;
};

/// A folder of this process alone, which goes with all that is in it. MissingError where none can
/// be made.
class OwnFolder {
 public:
  OwnFolder();
  ~OwnFolder();
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

}  // namespace rehearse::inline serve
