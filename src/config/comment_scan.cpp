#include "config/comment_scan.hpp"

namespace rehearse::inline config {

void CommentScan::scan(const std::string& text, std::size_t line) {
  const std::size_t first = text.find_first_not_of(' ');
  empty.push_back(first == std::string::npos && quote_ == 0);
  if (first == std::string::npos) return;
  if (block_ && first > *block_) return;
  block_.reset();
  bool begins = true;  // a value may begin here
  for (std::size_t i = first; i < text.size(); ++i) {
    const char c = text[i];
    if (quote_ != 0) {
      step_in_quotes(text, i);
      continue;
    }
    if (c == '#' && (i == first || text[i - 1] == ' ' || text[i - 1] == '\t')) {
      const bool above = line > 0 && empty[line - 1];
      all.push_back({line, i, i == first, i == first && above, text.substr(i)});
      break;
    }
    if ((c == '"' || c == '\'') && begins) {
      quote_ = c;
    } else if ((c == '|' || c == '>') && begins) {
      block_ = first;
    }
    begins =
        c == ' ' || c == '[' || c == '{' || c == ',' ? begins || c != ' ' : c == ':' || c == '-';
  }
}

void CommentScan::step_in_quotes(const std::string& text, std::size_t& i) {
  if (quote_ == '"' && text[i] == '\\') {
    ++i;
  } else if (text[i] == quote_) {
    if (quote_ == '\'' && i + 1 < text.size() && text[i + 1] == '\'')
      ++i;
    else
      quote_ = 0;
  }
}

std::multiset<char> comment_letters(const TextSource& source) {
  std::multiset<char> letters;
  for (const Comment& comment : CommentScan(source).all)
    for (const char c : comment.text)
      if (c != '#' && c != ' ') letters.insert(c);
  return letters;
}

}  // namespace rehearse::inline config
