#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rehearse::inline config {

// JSON as text and back, compiled once: the parser and the writer of nlohmann's header take seconds
// wherever they are called.

/// `indent` below 0: in one line. Texts that are no UTF-8 throw.
std::string json_text(const nlohmann::json& json, int indent = -1);
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);
/// In one line; what is no UTF-8 is replaced.
std::string json_text_of_any(const nlohmann::ordered_json& json);
/// Throws nlohmann's parse_error.
nlohmann::json parsed_json(const std::string& text);
nlohmann::ordered_json parsed_ordered_json(const std::string& text);
/// Discarded where the text is none.
nlohmann::json tried_json(const std::string& text);

}  // namespace rehearse::inline config
