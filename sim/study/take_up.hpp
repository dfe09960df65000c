#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "study/file_lock.hpp"
#include "study/result_store.hpp"
#include "study/study.hpp"

namespace rehearse::inline study {

/// MissingError if it cannot be made.
void make_folder(const std::filesystem::path& folder);

/// A file of results that this process alone writes, with its folder.
class LockedStore {
 public:
  /// Without what is there, if `fresh`. What killed writers left of the file `beside` it is
  /// removed; of an empty path nothing. MissingError as FileLock and ResultStore say.
  LockedStore(const std::filesystem::path& file, const std::filesystem::path& beside, bool fresh);

  ResultStore& operator*() { return *store_; }
  ResultStore* operator->() { return &*store_; }

 private:
  std::optional<FileLock> lock_;
  std::optional<ResultStore> store_;
};

/// Goes on with what is there, where it is of this study and program; InputError where it is not.
/// What is there of its points is kept if the study has changed since, which is told unless
/// `quiet`.
void take_up(ResultStore& store, const StudyIdentity& identity,
             const std::vector<StudyPoint>& points, bool quiet);

}  // namespace rehearse::inline study
