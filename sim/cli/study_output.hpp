#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/output.hpp"
#include "study/study_view.hpp"
#include "study/sweep.hpp"

namespace rehearse {

std::filesystem::path csv_file(const std::filesystem::path& folder);

/// The CSV beside a store: always whole, never long behind.
class StudyFile {
 public:
  /// No file for an empty path.
  StudyFile(const ResultStore& store, std::filesystem::path file);

  /// Writes it if the last time is long enough ago that this costs little. What cannot be written
  /// now may be later.
  void refresh();
  /// Writes it. MissingError if it cannot be written; the old one stays.
  void write();

 private:
  using Clock = std::chrono::steady_clock;

  const ResultStore& store_;
  std::filesystem::path file_;
  Clock::time_point next_;
};

/// Says that what is there of its points is kept, unless nothing is to be said.
void tell_if_changed(bool changed, bool quiet);

struct StudyOutput {
  std::filesystem::path folder;  ///< of the CSV
  std::string format;            ///< table, json or csv, on standard output
  std::filesystem::path html;    ///< the page; empty: none
  std::optional<Shard> shard;    ///< which has none of these
  std::string fail_unless;       ///< "fits" or "may_fit", of every point; empty: nothing is asked
  bool quiet = false;
  ColorChoice color = ColorChoice::automatic;
};

/// What a study ends with: its CSV, what it prints, and the Error that says which points have no
/// result: ExitCode::refuted for some that failed or are not what --fail-unless asks for,
/// ExitCode::missing for some that are not there or could not be written.
void finish_study(ResultStore& store, const StudyOutput& output);

}  // namespace rehearse
