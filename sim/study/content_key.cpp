#include "study/content_key.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/data_folder.hpp"
#include "cluster/cluster.hpp"
#include "config/json/json_text.hpp"
#include "config/whole_file.hpp"

namespace rehearse::inline study {
namespace {

using Json = nlohmann::json;  // whose objects are sorted

constexpr std::size_t kBuildDigits = 12;

Json canonical(const Value& value) {
  if (value.is_map()) {
    Json object = Json::object();
    Map map = value.as_map();
    for (const std::string& key : map.keys()) object[key] = canonical(map.require(key));
    return object;
  }
  if (value.is_list()) {
    Json array = Json::array();
    for (const Value& item : value.as_list()) array.push_back(canonical(item));
    return array;
  }
  return value.is_null() ? Json() : Json(value.as_string());
}

std::string name_in_key(const std::filesystem::path& file) {
  const std::filesystem::path inside = file.lexically_relative(platforms_folder());
  return inside.empty() || *inside.begin() == ".." ? file.string() : inside.string();
}

}  // namespace

std::string canonical_text(const Value& value) { return json_text(canonical(value)); }

std::string content_key(const std::string& program, const Document& scenario,
                        const std::vector<FilesRead::File>& files) {
  Json text = canonical(scenario.root());
  text.erase("description");
  Json read = Json::array();
  for (const FilesRead::File& file : files) {
    Json one = {name_in_key(file.name), content_key(file.text)};
    if (std::ranges::find(read, one) == read.end()) read.push_back(std::move(one));
  }
  return content_key(json_text(Json({program, text, read})));
}

std::string content_key(const std::string& text) {
  const XXH128_hash_t digest = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
}

std::string program_identity(const std::string& simgrid_version) {
  const std::string build = content_key(read_whole_file("/proc/self/exe"));
  return fmt::format("rehearse {}, simgrid {}, build {}", REHEARSE_VERSION, simgrid_version,
                     build.substr(0, kBuildDigits));
}

}  // namespace rehearse::inline study
