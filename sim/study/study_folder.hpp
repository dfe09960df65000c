#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "study/result_store.hpp"
#include "study/sweep.hpp"

namespace rehearse::inline study {

/// The CSV of a study's folder.
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

/// How a sweep goes, and what it keeps meanwhile.
struct SweepKept {
  std::filesystem::path folder;  ///< the CSV's, never long behind; a shard has none
  std::filesystem::path cache;   ///< a file of results that studies share; empty: none
  std::optional<Shard> shard;
  ChildLimits limits;
  bool quiet = false;  ///< no bar
};
/// sweep() into a store. Stopped (`limits.stop`), it throws as fail_as_stopped does.
void sweep_into(ResultStore& store, const PreparedStudy& prepared, const Simulator& simulator,
                const SweepKept& kept);

/// Files of a study that are kept when its simulations are over.
struct StudyKept {
  std::filesystem::path folder;  ///< the CSV's
  std::filesystem::path html;    ///< the page, not for a shard; empty: none
  std::optional<Shard> shard;    ///< which has no CSV
  std::string fail_unless;       ///< "fits" or "may_fit", of every point; empty: nothing is asked
};

/// Messages on a study at its end.
struct StudyEnd {
  std::string failures;        ///< the points', the first ten in full; empty: none
  std::optional<Error> error;  ///< why it is not as it was asked for
};

/// Brings a store to its disk and writes what is kept beside it. The Error: ExitCode::refuted for
/// points that failed or are not what `fail_unless` asks for, ExitCode::missing for points that are
/// not there or could not be written.
StudyEnd end_study(ResultStore& store, const StudyKept& kept);

}  // namespace rehearse::inline study
