#include "profile/log_words.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace rehearse {

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

std::size_t after_label(const std::string& line) {
  std::size_t at = line.find_first_not_of(" \t");
  if (at == std::string::npos) return line.size();
  const std::size_t start = at;
  if (line[at] == '[') {
    const std::size_t stream = line.find("]<std", at);
    const std::size_t close = stream == std::string::npos ? stream : line.find('>', stream);
    if (close == std::string::npos) return start;
    return close + 1 < line.size() && line[close + 1] == ':' ? close + 2 : close + 1;
  }
  while (at < line.size() && std::isdigit(static_cast<unsigned char>(line[at]))) ++at;
  return at > start && line.compare(at, 2, ": ") == 0 ? at + 2 : start;
}

std::optional<long> whole_number(const std::string& text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace rehearse
