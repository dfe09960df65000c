#include "config/canonical.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/quoting.hpp"
#include "config/comment_scan.hpp"
#include "config/document_node.hpp"
#include "config/draft.hpp"

namespace rehearse::inline config {

namespace {

using Kind = DocumentNode::Kind;

constexpr std::size_t kColumns = 100;

/// Comments and empty lines around an entry of a map or an item of a list.
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
    for (const Comment& comment : header_) add_comment(comment, 0);
    if (!header_.empty()) add_empty();
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
    std::size_t gap = 0;        // the place behind the comments before
    std::size_t outermost = 0;  // where the last of them went; none goes further in behind it
    for (const Comment& comment : scan_.all) {
      const auto next =
          std::ranges::find_if_not(places_, [&](Place place) { return before(place, comment); });
      const auto behind = static_cast<std::size_t>(next - places_.begin());
      if (std::exchange(gap, behind) != behind) outermost = behind;
      if (!comment.whole_line)
        attach_beside(comment, next);
      else if (behind == 0 && is_header(comment))
        header_.push_back(comment);
      else
        outermost = attach_whole(comment, behind, outermost);
    }
    for (Place place : places_) {
      const auto& comments = around_[place].before;
      const std::size_t first = comments.empty() ? place->place.line : comments.front().line;
      around_[place].after_empty = first > 0 && scan_.empty[first - 1];
    }
  }

  /// An empty line parts a file's first comments from its first key.
  bool is_header(const Comment& comment) const {
    const std::size_t key = places_.empty() ? scan_.empty.size() : places_.front()->place.line;
    return std::find(scan_.empty.begin() + static_cast<std::ptrdiff_t>(comment.line),
                     scan_.empty.begin() + static_cast<std::ptrdiff_t>(key),
                     true) != scan_.empty.begin() + static_cast<std::ptrdiff_t>(key);
  }

  /// A line of its own is of the entry below it, or, where it stands further to the right, of the
  /// entry above it that has ended and begins no further to the right. The place in the order.
  std::size_t attach_whole(const Comment& comment, std::size_t next, std::size_t outermost) {
    const std::size_t own = next < places_.size() ? places_[next]->place.byte : 0;
    const bool is_next = next < places_.size() && comment.column <= own;
    std::size_t left = std::min(outermost, next);
    if (outermost == next || is_next) {
      left = next;
      while (!is_next && left > 0) {
        const Place place = places_[left - 1];
        if (ends_.at(place) <= next && place->place.byte <= comment.column) break;
        --left;
      }
      if (!is_next && left > 0 && (next < places_.size() || comment.column > 0)) {
        around_[places_[left - 1]].behind.push_back(comment);
        return left - 1;
      }
    } else {
      around_[places_[left]].behind.push_back(comment);
      return left;
    }
    if (next < places_.size())
      around_[places_[next]].before.push_back(comment);
    else
      last_.push_back(comment);
    return next;
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
    const bool stays_quoted = plain != node.text || (node.quoted && !is_word(node.text));
    return stays_quoted ? escaped(node.text) : plain;
  }
  /// Whether every reader of YAML takes a text for a text: no number, date, flag or nothing.
  static bool is_word(const std::string& text) {
    static const std::vector<std::string> kOthers = {"true", "false", "null", "yes", "no",
                                                     "on",   "off",   "y",    "n"};
    std::string small = text;
    std::ranges::transform(small, small.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return std::isalpha(static_cast<unsigned char>(text.front())) != 0 &&
           std::ranges::find(kOthers, small) == kOthers.end();
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
    if (is_one && beside(place).empty() && print_lines(margin + head, value, inner)) return;
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
      if (is_map && (!item.flow || line.size() > kColumns || has_comments(item)))
        print_map_item(item, indent);
      else
        print_value("-", item, &item, indent, indent + 2);
      close(&item, indent);
    }
  }

  /// Its first key stands behind the dash, and comments above that key above the dash.
  void print_map_item(const DocumentNode& item, std::size_t indent) {
    Around& first = around_[&item.entries.front().key];
    if (const auto& beside = around_[&item].beside)
      first.beside = first.beside ? *beside + " " + first.beside->substr(1) : *beside;
    for (const DocumentEntry& entry : item.entries) {
      const bool is_first = &entry == &item.entries.front();
      if (is_first)
        for (const Comment& comment : first.before) add_comment(comment, indent);
      else
        open(&entry.key, indent + 2);
      print_value((is_first ? "- " : "") + scalar(entry.key) + ":", entry.value, &entry.key,
                  indent + (is_first ? 0 : 2), indent + 4);
      close(&entry.key, indent + 2);
    }
  }

  /// A text of several lines as it stands, where its lines need no quotes: `|`.
  bool print_lines(const std::string& head, const DocumentNode& value, std::size_t indent) {
    const std::string& all = value.text;
    const bool fits = value.quoted && all.find('\n') != std::string::npos && all[0] != ' ' &&
                      all[0] != '\n' && all.find('\t') == std::string::npos &&
                      all.find(" \n") == std::string::npos && !all.ends_with("\n\n");
    if (!fits) return false;
    text += head + (all.ends_with('\n') ? " |" : " |-") + "\n";
    for (std::size_t begin = 0; begin < all.size();) {
      const std::size_t end = std::min(all.find('\n', begin), all.size());
      const std::string line = all.substr(begin, end - begin);
      text += line.empty() ? "\n" : std::string(indent, ' ') + line + "\n";
      begin = end + 1;
    }
    return true;
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
  std::vector<Comment> header_, last_;
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

std::string printed(const std::string& text, const std::string& name,
                    const std::vector<std::string>& order) {
  const auto source = make_text_source(text, name, "");
  const std::optional<DocumentNode> root = parse_tree(source);
  if (!root || root->kind != Kind::map) return text;
  Printer printed(*root, *source, order);
  const auto again = make_text_source(printed.text, name, "");
  const std::optional<DocumentNode> read = parse_tree(again);
  if (!read || !are_equal(*root, *read) || comment_letters(*again) != comment_letters(*source))
    throw InputError(name +
                     ": error: its comments or texts have no other form here; the file stays as it "
                     "is\nremedy: put comments on lines of their own");
  return std::move(printed.text);
}

}  // namespace

std::string canonical(const std::string& text, const std::string& name,
                      const std::vector<std::string>& order) {
  // An empty line may lose its reason where what stood around it has moved.
  constexpr int kMostTimes = 5;
  std::string now = printed(text, name, order);
  for (int i = 1; i < kMostTimes; ++i) {
    std::string again = printed(now, name, order);
    if (again == now) break;
    now = std::move(again);
  }
  return now;
}

}  // namespace rehearse::inline config
