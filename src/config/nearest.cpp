#include <algorithm>
#include <boost/algorithm/string/case_conv.hpp>

#include "config/document.hpp"

namespace rehearse {

namespace {

// Damerau-Levenshtein in its restricted form (optimal string alignment): insertions, deletions,
// substitutions and swaps of neighbours cost 1 each. Three rows of the table are enough.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, above);
    std::swap(above, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({substituted, above[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::size_t allowed_distance(std::size_t length) {
  return std::max<std::size_t>(length / 3, length >= 4 ? 2 : 1);
}

constexpr std::size_t kLongestWord = 200;  // the distance takes length x length steps

// "A100" is more likely the begin of "A100-SXM-80" than "A10" with a letter too many: what a word
// begins costs less than any edit.
constexpr std::size_t kShortestBegin = 3, kEdit = 4;
// Letters in the other case cost least of all, however many they are.
constexpr std::size_t kBegin = 2, kCase = 1;

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_cost = kEdit * (allowed_distance(word.size()) + 1);
  if (word.size() > kLongestWord) return best;
  const std::string lower = boost::to_lower_copy(word);
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongestWord) continue;
    const std::string lower_candidate = boost::to_lower_copy(candidate);
    const std::size_t distance = edit_distance(lower, lower_candidate);
    // A word that shares no letter with the candidate is not a misspelling of it.
    if (distance >= std::max(word.size(), candidate.size())) continue;
    const bool is_begin = word.size() >= kShortestBegin && lower_candidate.starts_with(lower);
    const bool same_case = edit_distance(word, candidate) == distance;
    const std::size_t edits = is_begin ? std::min(distance, kBegin) : kEdit * distance;
    const std::size_t cost = edits + (same_case ? 0 : kCase);
    if (cost >= best_cost) continue;
    best = candidate;
    best_cost = cost;
  }
  return best;
}

}  // namespace rehearse
