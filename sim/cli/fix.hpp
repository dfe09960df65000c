#pragma once

#include <string>
#include <vector>

namespace rehearse::inline cli {

/// A word of a file that a remedy replaces.
struct Fix {
  std::size_t line = 0, column = 0;  ///< from 1; the column counts bytes
  std::string from, to;
};

/// The fixes that an error's text offers for one file: of each mistake that stands at
/// `file:line:column` in `text` and whose whole remedy is `did you mean "WORD"?`.
std::vector<Fix> fixes_of(const std::string& message, const std::string& file,
                          const std::string& text);
/// The text with these words replaced.
std::string fixed(const std::string& text, std::vector<Fix> fixes);

}  // namespace rehearse::inline cli
