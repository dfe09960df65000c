#include "profile/log_words.hpp"

#include <algorithm>
#include <charconv>

namespace rehearse::inline profile {

std::vector<Word> words_of(const std::string& line, std::size_t from) {
  std::vector<Word> words;
  std::size_t at = from;
  while ((at = line.find_first_not_of(" \t", at)) != std::string::npos) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    words.push_back({line.substr(at, end - at), at});
    at = end;
  }
  return words;
}

std::optional<long> whole_number(const std::string& text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace rehearse::inline profile
