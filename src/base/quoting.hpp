#pragma once

#include <string>

namespace rehearse::inline base {

/// A text as one word of a language that would else read something into it. JSON is
/// nlohmann::json's own.

/// A word of a shell: in single quotes, unless all of its letters are plain.
std::string shell_quoted(const std::string& word);
/// A YAML scalar: in double quotes, on one line.
std::string yaml_quoted(const std::string& text);
/// Text and attribute values of HTML.
std::string html_escaped(const std::string& text);

}  // namespace rehearse::inline base
