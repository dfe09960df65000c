#include "html/html.hpp"

#include <string_view>

#include "base/error.hpp"
#include "base/quoting.hpp"
#include "config/json/json_text.hpp"
#include "html/fallback.hpp"
#include "html/page_template.hpp"
#include "html/shared_parts.hpp"

namespace rehearse::inline html {
namespace {

using Json = nlohmann::ordered_json;

/// JSON that no HTML parser mistakes for markup: "<" stands only in its strings, where it may as
/// well be an escape. What is no UTF-8 becomes U+FFFD.
std::string script_safe(const Json& json) {
  std::string text;
  for (const char letter : json_text_of_any(json)) {
    if (letter == '<') {
      text += "\\u003c";
    } else {
      text += letter;
    }
  }
  return text;
}

/// Fills the places of the page in their order; each text as it is, whatever it says.
std::string filled(std::string_view page,
                   const std::vector<std::pair<std::string_view, std::string>>& texts) {
  std::string html;
  for (const auto& [place, text] : texts) {
    const std::size_t at = page.find(place);
    check(at != std::string_view::npos, "the page has a place for its data");
    html.append(page.substr(0, at)).append(text);
    page.remove_prefix(at + place.size());
  }
  return html.append(page);
}

std::string& noted_command() {
  static std::string command;
  return command;
}

Json with_command(Json extras) {
  if (!noted_command().empty()) extras["command"] = noted_command();
  return extras;
}

}  // namespace

void note_command(const std::vector<std::string>& words) {
  std::string line = "rehearse";
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool writes = word == "--html" || word == "--output";
    if (writes) ++i;
    if (!writes && !word.starts_with("--html=") && !word.starts_with("--output="))
      line += " " + shell_quoted(word);
  }
  noted_command() = line;
}

std::string to_html(const Json& document, const Json& extras) {
  Json kept = document, beside = with_command(extras);
  // The points of a sweep say much alike.
  constexpr std::size_t kFewPoints = 8;
  if (kept.contains("points") && kept["points"].size() > kFewPoints)
    if (Json shared = take_shared_parts(kept["points"]); !shared.is_null())
      beside["shared"] = std::move(shared);
  return filled(page_template(), {{"@TITLE@", html_escaped(title_of(document))},
                                  {"@FALLBACK@", fallback(document)},
                                  {"@DOCUMENT@", script_safe(kept)},
                                  {"@EXTRAS@", script_safe(beside)}});
}

std::string to_html(const std::string& document, const Json& extras) {
  return to_html(parsed_ordered_json(document), extras);
}

}  // namespace rehearse::inline html
