#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rehearse::inline foreign {

/// A character of a shell script that has been expanded, and where it stood in the file.
struct MarkedChar {
  char text = 0;
  bool quoted = false;          ///< it splits no word
  std::uint32_t line = 0;       ///< from 0
  std::uint32_t byte = 0;       ///< within the line, from 0
  std::uint32_t condition = 0;  ///< 1 + the line of what it depends on; 0: it holds
  bool unset = false;           ///< of a variable that the file does not set
};
using MarkedText = std::vector<MarkedChar>;

/// A text at the place of `at`.
MarkedText marked(const std::string& text, const MarkedChar& at);
std::string plain(const MarkedText& text);

/// Words of an expanded text: its blanks that are not quoted part them.
std::vector<MarkedText> split(const MarkedText& text, bool at_quoted_blanks = false);

/// What $((2 * (3 + 1))) is; nothing where it is no sum of whole numbers, or one beyond 10^15.
std::optional<std::int64_t> value_of_sum(const std::string& text);

}  // namespace rehearse::inline foreign
