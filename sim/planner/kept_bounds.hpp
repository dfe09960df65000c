#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "planner/bound.hpp"
#include "study/result_store.hpp"
#include "study/study.hpp"

namespace rehearse::inline planner {

/// Bounds that a stopped plan leaves in its file of results, for the next that is asked the same.
/// They stand in batches of candidates, each with digests of all files that reading them took: a
/// batch is taken only where this program, its scenarios and those files are as they were.
class KeptBounds {
 public:
  /// Candidates of a batch: few enough that all jobs have some, many enough that a process costs
  /// little.
  static constexpr std::size_t kBatch = 16;

  /// `file` is the plan's file of results, which need not be there; empty: nothing is kept.
  /// `identity` is the study's, which must stay.
  KeptBounds(std::filesystem::path file, StudyIdentity identity, const Study& study);

  std::size_t batches() const { return (study_.points.size() + kBatch - 1) / kBatch; }
  std::size_t begin(std::size_t batch) const { return batch * kBatch; }
  std::size_t end(std::size_t batch) const;

  /// A batch's bounds as text, with `bound` called for each scenario; what a child process says.
  std::string computed(std::size_t batch, const std::function<Bound(const Document&)>& bound) const;
  /// The bounds of such a text.
  static std::vector<Bound> read(const std::string& text);

  /// Texts of the batches that are there and still hold, by batch.
  std::map<std::size_t, std::string> known() const;
  /// Writes these texts into the file, unless it is of another study. Whether they are there.
  bool keep(const std::map<std::size_t, std::string>& texts) const;

 private:
  std::string key_of(std::size_t batch) const;

  std::filesystem::path file_;
  StudyIdentity identity_;
  const Study& study_;
};

}  // namespace rehearse::inline planner
