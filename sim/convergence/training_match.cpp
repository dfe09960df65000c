#include "convergence/training_match.hpp"

#include <algorithm>

namespace rehearse::inline convergence {

std::vector<std::string> TrainingMatch::refused(const std::vector<std::string>& accepted) const {
  std::vector<std::string> kinds;
  bool lacks = false;
  for (const UnlikeTraining& one : differences) {
    kinds.push_back(one.kind);
    lacks = lacks || std::ranges::count(accepted, one.kind) == 0;
  }
  return lacks ? kinds : std::vector<std::string>();
}

std::string TrainingMatch::words() const {
  std::string text;
  for (const UnlikeTraining& one : differences) text += (text.empty() ? "" : "; ") + one.words;
  return text;
}

}  // namespace rehearse::inline convergence
