#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "model/transformer.hpp"

namespace rehearse::inline model {

/// The transformer of a Hugging Face `config.json` (or of a folder that holds one), with what was
/// assumed where the file is silent. Families are told apart by `model_type`; `family` says of
/// another one how its fields are read (DerivedFamily).
///
/// InputError with file:line:column for a family that is not known, a field that is none of its
/// family's, and values that no network has. MissingError if the file cannot be read.
struct HuggingFaceModel {
  TransformerShape shape;
  std::vector<std::string> assumptions;
};
HuggingFaceModel read_hugging_face(const std::filesystem::path& path,
                                   const std::optional<Value>& family = std::nullopt);
/// The same of a config.json that stands in another document, by the name of its network.
HuggingFaceModel read_hugging_face(const Value& config, const std::string& name);

/// The model_types that are read.
std::vector<std::string> hugging_face_families();

}  // namespace rehearse::inline model
