#include "config/canonical.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/quoting.hpp"
#include "config/document_node.hpp"
#include "config/draft.hpp"

namespace rehearse::inline config {

namespace {

using Kind = DocumentNode::Kind;

constexpr std::size_t kColumns = 100;

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
  void scan(const std::string& text, std::size_t line) {
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
  void step_in_quotes(const std::string& text, std::size_t& i) {
    if (quote_ == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote_) {
      if (quote_ == '\'' && i + 1 < text.size() && text[i + 1] == '\'')
        ++i;
      else
        quote_ = 0;
    }
  }

  char quote_ = 0;
  std::optional<std::size_t> block_;  ///< the indentation of the key of a block of text
};

/// What stands around an entry of a map or an item of a list.
struct Around {
  std::vector<Comment> before, behind;
  std::optional<std::string> beside;
  bool after_empty = false;  ///< an empty line is before it
};

class Printer {
 public:
  Printer(const DocumentNode& root, const TextSource& source, const std::vector<std::string>& order)
      : order_(order), scan_(source) {
    collect(root);
    attach();
    print_map(root, 0, true);
    for (const Comment& comment : last_) add_comment(comment, 0);
  }
  std::string text;

 private:
  using Place = const DocumentNode*;

  /// Entries and items in the order of the text, and behind which places each ends.
  void collect(const DocumentNode& node) {
    for (const DocumentEntry& entry : node.entries) {
      places_.push_back(&entry.key);
      collect(entry.value);
      ends_[&entry.key] = places_.size();
    }
    for (const DocumentNode& item : node.items) {
      places_.push_back(&item);
      collect(item);
      ends_[&item] = places_.size();
    }
  }

  void attach() {
    const auto before = [](Place place, const Comment& comment) {
      return place->place.line < comment.line ||
             (place->place.line == comment.line && place->place.byte < comment.column);
    };
    for (const Comment& comment : scan_.all) {
      const auto next =
          std::ranges::find_if_not(places_, [&](Place place) { return before(place, comment); });
      if (!comment.whole_line) {
        attach_beside(comment, next);
        continue;
      }
      const std::size_t own = next == places_.end() ? 0 : (*next)->place.byte;
      if (next != places_.end() && (comment.column <= own || next == places_.begin())) {
        around_[*next].before.push_back(comment);
        continue;
      }
      const auto left =
          std::find_if(std::make_reverse_iterator(next), places_.rend(),
                       [&](Place place) { return place->place.byte <= comment.column; });
      if (left == places_.rend() || (next == places_.end() && comment.column == 0))
        last_.push_back(comment);
      else
        around_[*left].behind.push_back(comment);
    }
    for (Place place : places_) {
      const std::size_t line = place->place.line;
      const auto& comments = around_[place].before;
      const std::size_t first = comments.empty() ? line : comments.front().line;
      around_[place].after_empty = first > 0 && scan_.empty[first - 1];
    }
  }

  /// A comment behind something on its line is of the outermost entry that begins there, or of the
  /// last one where that goes on in the next line.
  void attach_beside(const Comment& comment, std::vector<Place>::const_iterator next) {
    if (next == places_.begin()) {
      last_.push_back(comment);
      return;
    }
    auto own = std::prev(next);
    while (own != places_.begin() && (*std::prev(own))->place.line == comment.line) --own;
    if (ends_.at(*own) > static_cast<std::size_t>(next - places_.begin())) own = std::prev(next);
    std::optional<std::string>& beside = around_[*own].beside;
    beside = beside ? *beside + " " + comment.text.substr(1) : comment.text;
  }

  bool has_comments(const DocumentNode& node) const {
    const auto own = [&](Place place) {
      const auto found = around_.find(place);
      return found != around_.end() && (!found->second.before.empty() ||
                                        !found->second.behind.empty() || found->second.beside);
    };
    return std::ranges::any_of(node.entries,
                               [&](const DocumentEntry& entry) {
                                 return own(&entry.key) || has_comments(entry.value);
                               }) ||
           std::ranges::any_of(node.items, [&](const DocumentNode& item) {
             return own(&item) || has_comments(item);
           });
  }

  static std::string scalar(const DocumentNode& node, bool in_braces = false) {
    if (node.kind == Kind::null) return "null";
    const std::string plain = yaml_scalar(node.text, in_braces);
    const bool stays_quoted =
        plain != node.text ||
        (node.quoted && (node.text.find_first_not_of("0123456789.+-eE_") == std::string::npos ||
                         is_word(node.text)));
    return stays_quoted ? escaped(node.text) : plain;
  }
  static bool is_word(const std::string& text) {
    static const std::vector<std::string> kWords = {"true", "false", "null", "~",     "yes", "no",
                                                    "on",   "off",   "True", "False", "Null"};
    return std::ranges::find(kWords, text) != kWords.end() || text.starts_with("0x") ||
           text.starts_with("0o");
  }
  static std::string escaped(const std::string& value) {
    std::string quoted = "\"";
    for (const char c : value) {
      if (c == '"' || c == '\\') quoted += '\\';
      if (c == '\n')
        quoted += "\\n";
      else if (c == '\t')
        quoted += "\\t";
      else
        quoted += c;
    }
    return quoted + "\"";
  }

  static std::string flow(const DocumentNode& node) {
    if (node.kind == Kind::list) {
      std::string all;
      for (const DocumentNode& item : node.items) all += (all.empty() ? "" : ", ") + flow(item);
      return "[" + all + "]";
    }
    if (node.kind != Kind::map) return scalar(node, true);
    std::string all;
    for (const DocumentEntry& entry : node.entries)
      all += fmt::format("{}{}: {}", all.empty() ? "" : ", ", scalar(entry.key, true),
                         flow(entry.value));
    return "{" + all + "}";
  }

  void add_comment(const Comment& comment, std::size_t indent) {
    if (comment.behind_empty) add_empty();
    text += std::string(indent, ' ') + comment.text + "\n";
  }
  void add_empty() {
    if (!text.empty() && !text.ends_with("\n\n")) text += "\n";
  }
  void open(Place place, std::size_t indent) {
    const Around& around = around_[place];
    if (around.after_empty) add_empty();
    for (const Comment& comment : around.before) add_comment(comment, indent);
  }
  void close(Place place, std::size_t indent) {
    for (const Comment& comment : around_[place].behind) add_comment(comment, indent);
  }
  /// Behind what stands on the line.
  std::string beside(Place place) const {
    const auto found = around_.find(place);
    return found == around_.end() || !found->second.beside ? "" : "  " + *found->second.beside;
  }

  std::vector<const DocumentEntry*> in_order(const DocumentNode& map, bool is_root) const {
    std::vector<std::pair<std::size_t, const DocumentEntry*>> ranked;
    std::size_t rank = 0;
    for (const DocumentEntry& entry : map.entries) {
      const auto found = std::ranges::find(order_, entry.key.text);
      if (is_root && found != order_.end()) rank = static_cast<std::size_t>(found - order_.begin());
      ranked.emplace_back(is_root ? rank : 0, &entry);
    }
    std::ranges::stable_sort(ranked, {}, &std::pair<std::size_t, const DocumentEntry*>::first);
    std::vector<const DocumentEntry*> all;
    for (const auto& [place, entry] : ranked) all.push_back(entry);
    return all;
  }

  void print_map(const DocumentNode& map, std::size_t indent, bool is_root = false) {
    for (const DocumentEntry* entry : in_order(map, is_root)) {
      open(&entry->key, indent);
      print_value(scalar(entry->key) + ":", entry->value, &entry->key, indent, indent + 2);
      close(&entry->key, indent);
    }
  }

  /// `head` is what stands before it: "key:" or "-".
  void print_value(const std::string& head, const DocumentNode& value, Place place,
                   std::size_t indent, std::size_t inner) {
    const std::string margin(indent, ' ');
    const bool is_one = value.kind != Kind::map && value.kind != Kind::list;
    const std::string line =
        fmt::format("{}{} {}", margin, head, is_one ? scalar(value) : flow(value));
    const bool is_empty = value.entries.empty() && value.items.empty();
    const bool stays = !is_one && value.flow && line.size() <= kColumns && !has_comments(value);
    if (is_one && line.size() > kColumns && !value.text.empty()) {
      print_long(margin + head, value, inner);
      text += beside(place) + "\n";
    } else if (is_one || is_empty || stays) {
      text += line + beside(place) + "\n";
    } else {
      text += margin + head + beside(place) + "\n";
      print_inside(value, inner);
    }
  }

  void print_inside(const DocumentNode& value, std::size_t indent) {
    if (value.kind == Kind::map) {
      print_map(value, indent);
      return;
    }
    for (const DocumentNode& item : value.items) {
      open(&item, indent);
      const std::string margin(indent, ' ');
      const std::string line = fmt::format("{}- {}", margin, flow(item));
      const bool is_map = item.kind == Kind::map && !item.entries.empty();
      if (is_map && (!item.flow || line.size() > kColumns || has_comments(item))) {
        // The first key stands behind the dash.
        const std::size_t begin = text.size();
        print_map(item, indent + 2);
        const std::size_t dash = text.find_first_not_of(" \n", begin);
        if (dash != std::string::npos && text[dash] != '#') text[dash - 2] = '-';
      } else {
        print_value("-", item, &item, indent, indent + 2);
      }
      close(&item, indent);
    }
  }

  /// A long text on several lines, each of which ends at one space.
  void print_long(const std::string& head, const DocumentNode& value, std::size_t indent) {
    const std::string whole = scalar(value);
    std::string line = head;
    std::size_t begin = 0;
    while (begin < whole.size()) {
      std::size_t end = whole.find(' ', begin);
      // Spaces side by side are no place for an end, nor is what would begin a line as a comment.
      while (end != std::string::npos && (whole[end - 1] == ' ' || end + 1 == whole.size() ||
                                          whole[end + 1] == ' ' || whole[end + 1] == '#'))
        end = whole.find(' ', end + 1);
      end = std::min(end, whole.size());
      const std::string word = whole.substr(begin, end - begin);
      if (line.size() + 1 + word.size() > kColumns &&
          line.find_first_not_of(' ') != std::string::npos && line != head) {
        text += line + "\n";
        line = std::string(indent, ' ') + word;
      } else {
        line += (line.find_first_not_of(' ') == std::string::npos ? "" : " ") + word;
      }
      begin = end + 1;
    }
    text += line;
  }

  const std::vector<std::string>& order_;
  CommentScan scan_;
  std::vector<Place> places_;
  std::map<Place, std::size_t> ends_;
  std::map<Place, Around> around_;
  std::vector<Comment> last_;
};

bool are_equal(const DocumentNode& a, const DocumentNode& b) {
  if (a.kind != b.kind || a.text != b.text || a.items.size() != b.items.size() ||
      a.entries.size() != b.entries.size())
    return false;
  for (std::size_t i = 0; i < a.items.size(); ++i)
    if (!are_equal(a.items[i], b.items[i])) return false;
  return std::ranges::all_of(a.entries, [&](const DocumentEntry& entry) {
    const DocumentEntry* other = b.find(entry.key.text);
    return other != nullptr && are_equal(entry.value, other->value);
  });
}

}  // namespace

std::string canonical(const std::string& text, const std::string& name,
                      const std::vector<std::string>& order) {
  const auto source = make_text_source(text, name, "");
  const std::optional<DocumentNode> root = parse_tree(source);
  if (!root || root->kind != Kind::map) return text;
  Printer printed(*root, *source, order);
  const auto again = parse_tree(make_text_source(printed.text, name, ""));
  const std::size_t comments = CommentScan(*make_text_source(printed.text, name, "")).all.size();
  if (!again || !are_equal(*root, *again) || comments > CommentScan(*source).all.size())
    throw std::logic_error(name + ": its canonical form has other values");
  return std::move(printed.text);
}

}  // namespace rehearse::inline config
