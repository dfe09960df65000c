#include "model/hugging_face/derived_family.hpp"

#include <algorithm>
#include <filesystem>

#include "base/data_folder.hpp"

namespace rehearse::inline model {
namespace {

std::vector<std::filesystem::path> family_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(platforms_path("models")))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

template <class Read>
void read_each(Map& map, const char* key, Read read) {
  const std::optional<Value> given = map.optional(key);
  if (!given) return;
  Map inner = given->as_map();
  for (const std::string& name : inner.keys()) read(name, inner.require(name));
}

}  // namespace

DerivedFamily read_derived_family(const Value& value, const std::vector<std::string>& families) {
  Map map = value.as_map();
  DerivedFamily family{.like = map.require("like").as_choice(families)};
  read_each(map, "names", [&](const std::string& name, const Value& own) {
    family.names.emplace(name, own.as_string());
  });
  read_each(map, "defaults", [&](const std::string& name, const Value& usual) {
    family.defaults.emplace(name, usual);
  });
  read_each(map, "required", [&](const std::string& name, const Value& only) {
    family.required.emplace(name, only.as_bool());
  });
  if (const std::optional<Value> ignored = map.optional("ignored"))
    for (const Value& one : ignored->as_list()) family.ignored.push_back(one.as_string());
  if (const std::optional<Value> source = map.optional("source")) source->as_string();
  map.finish();
  return family;
}

std::vector<std::string> shipped_derived_names() {
  std::vector<std::string> names;
  for (const std::filesystem::path& file : family_files()) {
    const std::vector<std::string> more = Document::load(file)->root().as_map().keys();
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

std::optional<Value> shipped_derived(const std::string& model_type) {
  for (const std::filesystem::path& file : family_files())
    if (auto family = Document::load(file)->root().as_map().optional(model_type)) return family;
  return std::nullopt;
}

}  // namespace rehearse::inline model
