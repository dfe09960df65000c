#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/text_source.hpp"
#include "foreign/marked_text.hpp"

namespace rehearse::inline foreign {

/// A shell script's commands with its own variables put in. Nothing is run: what a command prints,
/// what the environment holds and which way an `if` goes is not known.
class ShellScript {
 public:
  explicit ShellScript(std::shared_ptr<const TextSource> source);

  /// Commands that run a program, word by word, in the order of the file.
  const std::vector<std::vector<MarkedText>>& commands() const { return commands_; }
  /// Words behind `#SBATCH`.
  const std::vector<std::vector<MarkedText>>& batch_options() const { return batch_options_; }

 private:
  struct Variable {
    std::vector<MarkedText> items;  ///< one, or those of an array
  };
  using Words = std::vector<MarkedText>;

  bool at_end() const { return line_ >= source_->lines.size(); }
  char peek(std::size_t ahead = 0) const;
  MarkedChar here(char text, bool quoted) const;
  void advance();
  void read_comment();
  void read_array(const std::string& name, bool appends);
  void read_word(Words& words);
  void read_quoted(MarkedText& word);
  void read_expansion(MarkedText& word, bool quoted);
  void read_braced(const MarkedChar& at, MarkedText& word, bool quoted);
  MarkedText sum_of(const MarkedChar& at);
  MarkedText unknown(const std::string& text, const MarkedChar& at, bool quoted) const;
  MarkedText value_of(const std::string& name, const MarkedChar& at, bool quoted) const;
  std::string behind(char open, char close);
  bool assigns(const MarkedText& word);
  void end_command(Words& words);
  void end_word(MarkedText& word, Words& words);
  void check_size(const MarkedText& text) const;

  std::shared_ptr<const TextSource> source_;
  std::size_t line_ = 0, byte_ = 0;
  std::map<std::string, Variable> variables_;
  std::vector<std::uint32_t> conditions_;  ///< lines of `if`, `for` and the like that are open
  std::vector<Words> commands_, batch_options_;
};

}  // namespace rehearse::inline foreign
