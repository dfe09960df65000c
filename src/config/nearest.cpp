#include <algorithm>
#include <boost/algorithm/string/case_conv.hpp>
#include <boost/algorithm/string/classification.hpp>
#include <boost/algorithm/string/split.hpp>
#include <optional>
#include <unordered_map>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "config/document.hpp"
#include "config/document_node.hpp"
#include "config/whole_file.hpp"

namespace rehearse::inline config {

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
constexpr std::size_t kShortestBegin = 3, kShortestFirst = 4, kEdit = 8;
// Letters in the other case cost least of all, however many they are.
constexpr std::size_t kBegin = 4, kPart = 6, kCase = 2;
// Of equals, the one with the same letters: "gpsu" is "gpus" rather than "gpu".
constexpr std::size_t kOther = 1;

using Synonyms = std::unordered_map<std::string, std::vector<std::string>>;

/// platforms/synonyms.yaml: what words of others mean here. Without the file nothing is known.
Synonyms read_synonyms() {
  Synonyms all;
  try {
    const std::filesystem::path file = platforms_path("synonyms.yaml");
    const auto tree =
        parse_tree(make_text_source(read_whole_file(file), file.string(), file.parent_path()));
    if (!tree) return all;
    for (const DocumentEntry& entry : tree->entries) {
      std::vector<std::string>& meanings = all[entry.key.text];
      for (const DocumentNode& one : entry.value.items) meanings.push_back(one.text);
      if (meanings.empty()) meanings.push_back(entry.value.text);
    }
  } catch (const MissingError&) {
  }
  return all;
}

/// What a word is elsewhere for one of the candidates; nothing for a word without synonyms, empty
/// where the candidates have none of them.
std::optional<std::string> meant_by(const std::string& lower,
                                    const std::vector<std::string>& candidates) {
  static const Synonyms all = read_synonyms();
  const auto known = all.find(lower);
  if (known == all.end()) return std::nullopt;
  for (const std::string& one : known->second)
    if (std::ranges::find(candidates, one) != candidates.end()) return one;
  return "";
}

bool is_swapped(std::string a, std::string b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b;
}

/// Whether a longer name has the word as one of the parts that "_" and "-" join.
bool is_part(const std::string& word, const std::string& name) {
  const auto joins = [&](std::size_t at) {
    return at >= name.size() || name[at] == '_' || name[at] == '-';
  };
  for (std::size_t at = name.find(word); at != std::string::npos; at = name.find(word, at + 1)) {
    if ((at == 0 || joins(at - 1)) && joins(at + word.size())) return true;
  }
  return false;
}

/// "llama3_70b" and "llama_3_70b" are the same but for what separates their parts.
std::string without_separators(std::string word) {
  boost::to_lower(word);
  std::erase_if(word, [](char c) { return c == '_' || c == '-' || c == '.' || c == ' '; });
  return word;
}

/// The parts of a name, in small letters: "a100", "sxm4" and "80gb" of "A100-SXM4-80GB".
std::vector<std::string> parts_of(std::string name) {
  boost::to_lower(name);
  std::vector<std::string> parts;
  boost::split(parts, name, boost::is_any_of("_-. "), boost::token_compress_on);
  return parts;
}

/// "a100", "l4" and "4090" name a device; "80" does not.
bool names_a_device(const std::string& part) {
  const auto digits = std::ranges::count_if(part, [](char c) { return c >= '0' && c <= '9'; });
  return digits > 0 && (part.size() > 2 || part.size() > static_cast<std::size_t>(digits));
}

/// The candidate of which the word has the part that names a device, as "A100-SXM-80" in "NVIDIA
/// A100-SXM4-80GB". Of several, the one of which the word has most parts or longer ones; then what
/// the part alone means elsewhere; then the shortest.
std::string with_its_parts(const std::string& word, const std::vector<std::string>& candidates) {
  const std::vector<std::string> parts = parts_of(word);
  std::string best;
  std::size_t most = 0;
  for (const std::string& candidate : candidates) {
    const std::vector<std::string> own = parts_of(candidate);
    const auto device = std::ranges::find_if(own, [&](const std::string& part) {
      return names_a_device(part) && std::ranges::find(parts, part) != parts.end();
    });
    if (device == own.end()) continue;
    const auto had = static_cast<std::size_t>(std::ranges::count_if(own, [&](const auto& part) {
      return std::ranges::any_of(parts, [&](const auto& one) { return one.starts_with(part); });
    }));
    const bool usual = meant_by(*device, candidates) == candidate;
    if (had < most || (had == most && !usual && best.size() <= candidate.size())) continue;
    best = candidate;
    most = had;
  }
  return best;
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_cost = kEdit * (allowed_distance(word.size()) + 1);
  if (word.size() > kLongestWord) return best;
  // "meta-llama/Llama-3.1-8B": an owner is no part of a name.
  if (const std::size_t owner = word.rfind('/'); owner != std::string::npos)
    return nearest(word.substr(owner + 1), candidates);
  for (const std::string& candidate : candidates)
    if (without_separators(candidate) == without_separators(word)) return candidate;
  const std::string lower = boost::to_lower_copy(word);
  const std::optional<std::string> meant = meant_by(lower, candidates);
  if (meant && !meant->empty()) return *meant;
  // Only a slip of a letter: what it is elsewhere is none of these.
  if (meant) best_cost = kEdit + kCase;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongestWord) continue;
    const std::string lower_candidate = boost::to_lower_copy(candidate);
    const std::size_t distance = edit_distance(lower, lower_candidate);
    // A word that shares no letter with the candidate is not a misspelling of it.
    if (distance >= std::max(word.size(), candidate.size())) continue;
    const bool is_begin = word.size() >= kShortestBegin && lower_candidate.starts_with(lower);
    const bool same_case = edit_distance(word, candidate) == distance;
    const std::size_t named = is_begin ? std::min(2 * distance, kBegin) : kEdit * distance;
    const bool is_part_of = word.size() >= kShortestBegin && is_part(lower, lower_candidate);
    std::size_t edits = is_part_of ? std::min(named, kPart) : named;
    // "fulll" of "full_shard": a slip in what the candidate begins with.
    const std::string first = lower_candidate.substr(0, lower_candidate.find('_'));
    if (first.size() >= kShortestFirst && first.size() < lower_candidate.size() &&
        edit_distance(lower, first) == 1)
      edits = std::min(edits, kEdit + kPart);
    const std::size_t cost =
        edits + (same_case ? 0 : kCase) + (is_swapped(lower, lower_candidate) ? 0 : kOther);
    if (cost >= best_cost) continue;
    best = candidate;
    best_cost = cost;
  }
  return best.empty() ? with_its_parts(word, candidates) : best;
}

}  // namespace rehearse::inline config
