#include "config/json/json_text.hpp"

#include <nlohmann/json.hpp>

namespace rehearse::inline config {

std::string json_text(const nlohmann::json& json, int indent) { return json.dump(indent); }
std::string json_text(const nlohmann::ordered_json& json, int indent) { return json.dump(indent); }

std::string json_text_of_any(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

nlohmann::json parsed_json(const std::string& text) { return nlohmann::json::parse(text); }
nlohmann::ordered_json parsed_ordered_json(const std::string& text) {
  return nlohmann::ordered_json::parse(text);
}

nlohmann::json tried_json(const std::string& text) {
  return nlohmann::json::parse(text, nullptr, false);
}

}  // namespace rehearse::inline config
