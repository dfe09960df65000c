#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/child_pool.hpp"
#include "study/result_store.hpp"
#include "study/study.hpp"

namespace rehearse::inline study {

/// A share of a study for one of several processes: of n shards the i-th has every n-th point, from
/// point i on.
struct Shard {
  std::size_t index = 1, count = 1;

  bool has(std::size_t point) const { return point % count == index - 1; }  ///< counted from 0
};

/// A study whose scenarios have been read once.
struct PreparedStudy {
  Study study;
  StudyIdentity identity;
  std::vector<StudyPoint> points;             ///< as Study::points
  std::map<std::string, Outcome> unreadable;  ///< errors of scenarios that cannot be read, by key
};

/// Functions of the simulator that a sweep needs.
struct Simulator {
  std::string program;  ///< program_identity
  /// Reads a scenario strictly, and throws what is wrong.
  std::function<void(const Document&)> read;
  /// The report of a scenario, JSON in one line; runs in a child process.
  std::function<std::string(const Document&)> predict;
};

/// Reads every point's scenario and finds its key. A point whose scenario is wrong keeps its error;
/// where all are wrong, the study is: the first's InputError.
PreparedStudy prepare(Study study, const Simulator& simulator);

/// The text of a simulation, if it was made from the files that its key stands for; MissingError if
/// one of them has changed in between.
std::string of_its_key(const std::string& key, const std::string& program, const Document& scenario,
                       const std::function<std::string()>& work);

/// How far a sweep is, in points.
struct SweepProgress {
  std::size_t done = 0, all = 0, failed = 0;
  std::size_t simulated = 0;    ///< by this sweep; points that share an outcome count once
  std::size_t to_simulate = 0;  ///< 0: points are all alike, and none is known already
  bool at_most = false;         ///< some of `all` and `to_simulate` may turn out to be needless
};

struct SweepOptions {
  ChildLimits limits;
  Shard shard;
  const std::vector<std::size_t>* only = nullptr;  ///< these points of the study; null: all
  ResultStore* cache = nullptr;                    ///< outcomes of other studies; may be null
  std::function<void(const SweepProgress&)> progress = nullptr;
  /// May store outcomes of some points first, which others simulate; null: nobody else does.
  std::function<void(const PreparedStudy&, const std::vector<std::size_t>&)> elsewhere = nullptr;
};

/// Simulates what `store` does not know yet of the shard, each content once, and stores each
/// outcome as it comes. Outcomes that are not final (killed, out of memory, a missing file) are
/// tried again. False if it was stopped.
bool sweep(const PreparedStudy& prepared, const Simulator& simulator, ResultStore& store,
           const SweepOptions& options);

}  // namespace rehearse::inline study
