#pragma once

#include <string>
#include <vector>

namespace rehearse::inline convergence {

/// In what a training differs from that of the curves that are to speak for it.
struct UnlikeTraining {
  std::string kind;   ///< "network", "data" or "optimizer"
  std::string words;  ///< "the curves are of small_mlp on mnist, and the model is gpt2"
};

/// What curves trained, beside what a forecast is asked about.
struct TrainingMatch {
  std::vector<UnlikeTraining> differences;
  std::string subject;  ///< "small_mlp on mnist"; with differences "..., accepted for gpt2"

  /// All kinds where `accepted` lacks one of them; else none.
  std::vector<std::string> refused(const std::vector<std::string>& accepted) const;
  /// All differences in a sentence.
  std::string words() const;
};

}  // namespace rehearse::inline convergence
