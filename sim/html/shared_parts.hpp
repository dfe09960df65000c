#pragma once

#include <nlohmann/json.hpp>

namespace rehearse::inline html {

/// Takes out what a document says several times: each such part stands in the array that is
/// returned, and `{"$shared": its place}` in its stead. Parts of the array may name earlier ones.
/// A page restores them (main.js). Null where nothing large stands twice.
nlohmann::ordered_json take_shared_parts(nlohmann::ordered_json& document);

}  // namespace rehearse::inline html
