#include "cli/fix.hpp"

#include <algorithm>
#include <regex>
#include <sstream>

namespace rehearse::inline cli {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The plain or quoted word that begins at a column, without its quotes; empty where none does.
std::string word_at(const std::string& line, std::size_t column) {
  if (column < 1 || column > line.size()) return "";
  const std::size_t begin =
      line[column - 1] == '"' || line[column - 1] == '\'' ? column : column - 1;
  const std::size_t end = line.find_first_of(" \t,:{}[]\"'#", begin);
  return line.substr(begin, std::min(end, line.size()) - begin);
}

struct Place {
  std::size_t line = 0, column = 0;  ///< from 1; 0: none
};

Place place_of(const std::string& line, const std::string& file) {
  static const std::regex kPlace(R"(^:(\d{1,7}):(\d{1,5}): error: .*)");
  std::smatch found;
  if (!line.starts_with(file)) return {};
  const std::string rest = line.substr(file.size());
  if (!std::regex_match(rest, found, kPlace)) return {};
  return {std::stoul(found[1]), std::stoul(found[2])};
}

}  // namespace

std::vector<Fix> fixes_of(const std::string& message, const std::string& file,
                          const std::string& text) {
  static const std::regex kRemedy(R"re(^remedy: did you mean "([^"\\]+)"\?$)re");
  const std::vector<std::string> lines = lines_of(text);
  std::vector<Fix> fixes;
  Place place;
  for (const std::string& line : lines_of(message)) {
    if (line.find(": error: ") != std::string::npos) place = place_of(line, file);
    std::smatch found;
    if (place.line == 0 || !std::regex_match(line, found, kRemedy)) continue;
    if (place.line <= lines.size()) {
      const std::string word = word_at(lines[place.line - 1], place.column);
      const bool known = std::ranges::any_of(fixes, [&](const Fix& fix) {
        return fix.line == place.line && fix.column == place.column;
      });
      if (!word.empty() && !known) fixes.push_back({place.line, place.column, word, found[1]});
    }
    place = {};
  }
  return fixes;
}

std::string fixed(const std::string& text, std::vector<Fix> fixes) {
  std::vector<std::string> lines = lines_of(text);
  // From the end of each line, so that columns before it stay.
  std::ranges::sort(fixes, std::ranges::greater{},
                    [](const Fix& fix) { return std::pair(fix.line, fix.column); });
  for (const Fix& fix : fixes) {
    std::string& line = lines[fix.line - 1];
    const std::size_t at = line.find(fix.from, fix.column - 1);
    if (at != std::string::npos) line.replace(at, fix.from.size(), fix.to);
  }
  std::string all;
  for (const std::string& line : lines) all += line + '\n';
  return all;
}

}  // namespace rehearse::inline cli
