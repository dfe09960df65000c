#include <fmt/format.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "config/document_node.hpp"
#include "config/tree_builder.hpp"

namespace rehearse::inline config {

namespace {

bool is_blank_or_comment(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  return begin == std::string_view::npos || line[begin] == '#';
}

// YAML forbids tabs in indentation, but yaml-cpp reports them as something else, or not at all.
void reject_tab_indentation(const std::shared_ptr<const TextSource>& source) {
  for (std::size_t line = 0; line < source->lines.size(); ++line) {
    const std::string& text = source->lines[line];
    const std::size_t tab = text.find('\t');
    if (tab == std::string::npos || is_blank_or_comment(text) ||
        tab > text.find_first_not_of(" \t"))
      continue;
    fail_at({source, line, tab}, "a tab in the indentation", "indent with spaces");
  }
}

void reject_directives(const std::shared_ptr<const TextSource>& source) {
  std::size_t line = 0;
  while (line < source->lines.size() && is_blank_or_comment(source->lines[line])) ++line;
  if (line == source->lines.size() || source->lines[line][0] != '%') return;
  fail_at({source, line, 0}, "directives (%NAME) are not supported", "leave the line out");
}

// yaml-cpp 0.7 takes the end of a file after a line end for the end of an open quote. A document
// end, which no quoted text may contain, makes it an error.
std::string text_for_yaml(const TextSource& source, std::size_t skip) {
  const bool has_end = std::any_of(source.lines.begin(), source.lines.end(),
                                   [](const std::string& line) { return line.starts_with("..."); });
  return joined(source, skip) + (has_end ? "" : "\n...\n");
}

// A place at the end of the file belongs to its last line that is not empty.
TextPosition step_back_over_empty_lines(TextPosition place) {
  while (place.line > 0 && is_blank_or_comment(place.source->lines[place.line])) {
    --place.line;
    place.byte = place.source->lines[place.line].size();
  }
  return place;
}

std::string remedy_for(std::string_view message) {
  if (message == YAML::ErrorMsg::MAP_VALUE)
    return "check the indentation; a text that contains \": \" needs quotes";
  if (message == YAML::ErrorMsg::UNKNOWN_TOKEN)
    return "a text that begins with this character needs quotes";
  if (message == YAML::ErrorMsg::END_OF_MAP || message == YAML::ErrorMsg::END_OF_SEQ)
    return "check the indentation";
  return "";
}

/// Finds where a comment of JSON begins ("//", outside of quotes, at a word's begin) in a text that
/// is written like JSON; such a text is no YAML.
std::optional<TextPosition> json_comment(const std::shared_ptr<const TextSource>& source) {
  bool quoted = false, first = true;
  for (std::size_t line = 0; line < source->lines.size(); ++line) {
    const std::string& text = source->lines[line];
    for (std::size_t at = 0; at < text.size(); ++at) {
      const bool blank = text[at] == ' ' || text[at] == '\t';
      if (first && !blank && text[at] != '{' && text[at] != '[') return std::nullopt;
      first = first && blank;
      if (text[at] == '"' && (at == 0 || text[at - 1] != '\\')) quoted = !quoted;
      const bool begins =
          at == 0 || std::string_view(" \t,{[").find(text[at - 1]) != std::string_view::npos;
      if (!quoted && begins && text.compare(at, 2, "//") == 0)
        return TextPosition{source, line, at};
    }
  }
  return std::nullopt;
}

void refuse_json_comment(const std::shared_ptr<const TextSource>& source) {
  if (const auto place = json_comment(source))
    fail_at(*place, "a comment begins with # here", "write # in the place of //");
}

[[noreturn]] void fail_as_yaml(const Marks& marks, const TreeBuilder& builder,
                               const YAML::Exception& error) {
  const TextPosition place = step_back_over_empty_lines(marks.place(error.mark));
  const std::string_view message = error.msg;
  if (message.starts_with(YAML::ErrorMsg::UNKNOWN_ANCHOR)) {
    if (builder.reads_anchors()) fail_at(place, "an alias of no anchor before it");
    fail_at(place, "aliases (*name) are not supported", "write the value out");
  }
  if (message == YAML::ErrorMsg::DOC_IN_SCALAR || message == YAML::ErrorMsg::EOF_IN_SCALAR) {
    fail_at(place, "a quote is not closed before this");
  }
  const DocumentNode* open = builder.innermost_open();
  const bool flow =
      message == YAML::ErrorMsg::END_OF_MAP_FLOW || message == YAML::ErrorMsg::END_OF_SEQ_FLOW;
  const std::string_view bracket = open == nullptr ? "" : marks.text_at(open->place).substr(0, 1);
  if (flow && (bracket == "[" || bracket == "{")) {
    const std::string_view rest = marks.text_at(open->place);
    const std::string_view line = rest.substr(0, rest.find('\n'));
    const bool tight = line.find(":{") != line.npos || line.find(":[") != line.npos;
    fail_at(open->place,
            fmt::format("this \"{}\" is not closed, or a comma is missing in it", bracket),
            tight ? "put a space after the colon" : "");
  }
  fail_at(place, fmt::format("not valid YAML: {}", message), remedy_for(message));
}

}  // namespace

const DocumentEntry* DocumentNode::find(const std::string& key) const {
  const auto found = index.find(key);
  return found == index.end() ? nullptr : &entries[found->second];
}

DocumentEntry* DocumentNode::find(const std::string& key) {
  return const_cast<DocumentEntry*>(std::as_const(*this).find(key));
}

DocumentEntry& DocumentNode::add(DocumentNode key, DocumentNode value) {
  index.emplace(key.text, entries.size());
  entries.push_back({std::move(key), std::move(value)});
  return entries.back();
}

namespace {

std::optional<DocumentNode> parse(const std::shared_ptr<const TextSource>& source, std::size_t skip,
                                  TreeBuilder::Strictness strictness) {
  reject_tab_indentation(source);
  reject_directives(source);
  const Marks marks{source, skip};
  TreeBuilder builder(marks, strictness);
  std::istringstream stream(text_for_yaml(*source, skip));
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    refuse_json_comment(source);
    fail_as_yaml(marks, builder, error);
  } catch (const InputError&) {
    refuse_json_comment(source);
    throw;
  }
  return builder.take_root();
}

}  // namespace

std::optional<DocumentNode> parse_tree(const std::shared_ptr<const TextSource>& source,
                                       std::size_t skip) {
  return parse(source, skip, TreeBuilder::Strictness::strict);
}

std::optional<DocumentNode> parse_foreign_tree(const std::shared_ptr<const TextSource>& source) {
  return parse(source, 0, TreeBuilder::Strictness::foreign);
}

}  // namespace rehearse::inline config
