#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
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
  /// `NAME=VALUE`, exported, in front of a command or by itself, in the order of the file.
  const std::vector<std::pair<std::string, MarkedText>>& assigned() const { return assigned_; }
  /// Words behind `#SBATCH`.
  const std::vector<std::vector<MarkedText>>& batch_options() const { return batch_options_; }

 private:
  struct Variable {
    std::vector<MarkedText> items;  ///< one, or those of an array
  };
  using Words = std::vector<MarkedText>;
  enum class Holds : std::uint8_t { yes, no, unknown };
  /// A condition or a loop that is open, and which branch of it this is.
  struct Frame {
    std::uint32_t line = 0;
    Holds branch = Holds::unknown;  ///< whether the commands that follow run
    bool taken = false;             ///< an earlier branch runs for sure
    bool open = false;              ///< an earlier branch may run
  };

  /// Brackets within brackets, as YAML and JSON are bounded, too.
  static constexpr int kMostBrackets = 64;

  static bool is_name(char c);
  bool at_end() const { return line_ >= source_->lines.size(); }
  char peek(std::size_t ahead = 0) const;
  MarkedChar here(char text, bool quoted) const;
  void advance();
  void read_comment();
  void read_document_end();
  void skip_documents();
  void read_array(const std::string& name, bool appends);
  void read_word(Words& words);
  void read_quoted(MarkedText& word);
  void read_expansion(MarkedText& word, bool quoted);
  void read_braced(const MarkedChar& at, MarkedText& word, bool quoted);
  MarkedText sum_of(const MarkedChar& at);
  MarkedText sum_of(const std::string& text, const std::string& shown, const MarkedChar& at);
  MarkedText printed(const std::string& command, const MarkedChar& at, bool quoted);
  MarkedText unknown(const std::string& text, const MarkedChar& at, bool quoted) const;
  MarkedText value_of(const std::string& name, const MarkedChar& at, bool quoted) const;
  std::string behind(char open, char close);
  bool assigns(const MarkedText& word);
  Holds holds(const Words& words, std::size_t first) const;
  std::uint32_t condition() const;
  bool skips() const;
  void branch(Frame& frame, Holds test) const;
  bool structure(const Words& words, std::size_t first, bool joined);
  void chain(const Words& words, std::size_t first, char separator);
  void end_command(Words& words, char separator);
  void end_word(MarkedText& word, Words& words);
  void check_size(std::size_t bytes) const;
  /// Counts what variables become, over the whole file.
  void spend(std::size_t bytes) const;

  std::shared_ptr<const TextSource> source_;
  std::size_t line_ = 0, byte_ = 0;
  std::map<std::string, Variable> variables_;
  std::vector<Frame> frames_;  ///< `if`, `for` and the like that are open, the inner one last
  std::vector<std::string> document_ends_;  ///< of `<<EOF` on this line
  Holds chain_ = Holds::yes;                ///< whether a command behind `&&` or `||` runs
  std::uint32_t chain_line_ = 0;
  mutable std::size_t spent_ = 0;
  std::vector<Words> commands_, batch_options_;
  std::vector<std::pair<std::string, MarkedText>> assigned_;
};

}  // namespace rehearse::inline foreign
