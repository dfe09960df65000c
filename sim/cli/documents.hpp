#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace rehearse::inline cli {

/// A kind of file that people write, or of document that a command prints, and its JSON Schema.
struct DocumentKind {
  std::string name;  ///< "scenario", "explain"
  nlohmann::ordered_json (*schema)(const std::string& name);
};

/// Files first, in the order of schema_kinds(); then documents.
const std::vector<DocumentKind>& document_kinds();

/// The schema of a kind as text, as schema/KIND.schema.json has it. InputError for an unknown one.
std::string document_schema(const std::string& name);

}  // namespace rehearse::inline cli
