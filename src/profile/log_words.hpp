#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rehearse::inline profile {

/// One of a line's words, which spaces and tabs part.
struct Word {
  std::string text;
  std::size_t byte = 0;  ///< where it starts in its line
};
std::vector<Word> words_of(const std::string& line, std::size_t from);

/// Nothing where the text is anything else.
std::optional<long> whole_number(const std::string& text);

}  // namespace rehearse::inline profile
