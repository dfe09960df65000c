#pragma once

#include <SQLiteCpp/Database.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace rehearse::inline study {

/// Outcome of a scenario.
struct Outcome {
  ExitCode code = ExitCode::success;
  std::string text;  ///< the report (JSON in one line), or the whole error

  /// Whether it follows from the scenario, and not from the machine or the moment: a report, wrong
  /// input, a simulation that is stuck.
  bool is_final() const;

  bool operator==(const Outcome&) const = default;
};

/// Identity of a file of results.
struct StudyIdentity {
  std::string program;      ///< program_identity
  std::string study;        ///< its name
  std::string description;  ///< may be empty
  std::string scenario;     ///< the file that its axes start from, without folders
  std::vector<std::string> axes;

  bool operator==(const StudyIdentity&) const = default;
};

/// A point as its file knows it.
struct StudyPoint {
  std::vector<std::string> labels;  ///< by axis
  std::string key;                  ///< its outcome's; points with the same content share it

  bool operator==(const StudyPoint&) const = default;
};

/// The points of a study and the outcomes that are known, in a file of SQLite (tables `study`,
/// `points`, `results`), each row with a checksum. What it holds depends on what was stored and not
/// on the order. An outcome is in the file, whole, once store() has returned, whatever kills the
/// process then; one that cannot be written (a full disk) is kept here and tried again with the
/// next.
class ResultStore {
 public:
  /// Opens a file, or makes one where there is none. InputError if it is none of ours or of another
  /// version of this table, and is left as it is; MissingError if it cannot be read or written.
  explicit ResultStore(const std::filesystem::path& file);
  /// Removes a file, if it is there, with what SQLite keeps beside it. InputError as above.
  static void remove(const std::filesystem::path& file);

  const std::filesystem::path& file() const { return file_; }
  /// Nothing: a file that was made just now.
  std::optional<StudyIdentity> identity() const;
  /// InputError if one of them cannot be read.
  std::vector<StudyPoint> points() const;
  /// Replaces what it is of; outcomes stay. MissingError if it cannot be written.
  void describe(const StudyIdentity& identity, const std::vector<StudyPoint>& points);

  /// InputError if the outcome is damaged: by its checksum, a code that none ends with, a report
  /// that is no JSON.
  std::optional<Outcome> find(const std::string& key) const;
  void store(const std::string& key, const Outcome& outcome);
  /// Calls `take` with every outcome, in the order of keys.
  void for_each(const std::function<void(const std::string& key, const Outcome&)>& take) const;

  /// Tries once more to write what could not be written. Keys that are still not in the file.
  std::vector<std::string> flush();
  /// Why the last attempt to write failed; empty: it did not.
  const std::string& trouble() const { return trouble_; }

 private:
  void write(const std::map<std::string, Outcome>& outcomes);
  Outcome checked(const std::string& key, Outcome outcome, std::int64_t checksum) const;
  void check_number_of_points(std::size_t read) const;
  /// No row of points or results: describe() is still to come.
  bool is_new() const;

  std::filesystem::path file_;
  SQLite::Database database_;
  std::map<std::string, Outcome> unwritten_;
  std::string trouble_;
};

/// Throws the InputError of a file whose results nobody can read; `what` says which, and `why` how
/// that was seen.
[[noreturn]] void fail_as_damaged(const std::filesystem::path& file, const std::string& what,
                                  const std::string& why);

}  // namespace rehearse::inline study
