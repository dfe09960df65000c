#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/document.hpp"

namespace rehearse::inline model {

/// A family of Hugging Face that another family's reader reads, as data (platforms/models, or
/// `model.family` of a scenario).
struct DerivedFamily {
  std::string like;                            ///< the model_type that is read in its place
  std::map<std::string, std::string> names{};  ///< this family's field, by that one's
  /// Where config.json leaves it out, by that one's field.
  std::map<std::string, Value> defaults{};
  std::map<std::string, bool> required{};  ///< by this family's field
  std::vector<std::string> ignored{};      ///< fields of this family
};

/// A map with `like`, `names`, `defaults`, `required`, `ignored` and `source`. InputError at a key
/// that is none of these, and where `like` is none of `families`.
DerivedFamily read_derived_family(const Value& value, const std::vector<std::string>& families);

/// The model_types of platforms/models/*.yaml, in the order of their files.
std::vector<std::string> shipped_derived_names();
/// Nothing where no file of platforms/models has it.
std::optional<Value> shipped_derived(const std::string& model_type);

}  // namespace rehearse::inline model
