#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/text_source.hpp"

namespace rehearse::inline config {

/// A comment of YAML.
struct Comment {
  std::size_t line = 0, column = 0;
  bool whole_line = false;    ///< nothing stands before it
  bool behind_empty = false;  ///< of a whole line: an empty line is before it
  std::string text;           ///< from # on
};

/// The comments of a text: a # at the begin of a line or behind a space, and in no quotes.
class CommentScan {
 public:
  explicit CommentScan(const TextSource& source) {
    for (std::size_t line = 0; line < source.lines.size(); ++line) scan(source.lines[line], line);
  }
  std::vector<Comment> all;
  std::vector<bool> empty;  ///< lines without anything

 private:
  void scan(const std::string& text, std::size_t line);
  void step_in_quotes(const std::string& text, std::size_t& place);

  char quote_ = 0;
  std::optional<std::size_t> block_;  ///< the indentation of the key of a block of text
};

/// Letters of all comments, whatever their order.
std::multiset<char> comment_letters(const TextSource& source);

}  // namespace rehearse::inline config
