#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rehearse::inline html {

/// The document's name at the top of its page and of its window.
std::string title_of(const nlohmann::ordered_json& document);

/// Tables of the document's figures, for browsers that run no scripts: those of a report by their
/// keys, a line for each of a study's points (1,000 at most), and the plain figures of any other.
std::string fallback(const nlohmann::ordered_json& document);

}  // namespace rehearse::inline html
