#include "keys/keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "config/document.hpp"
#include "view/table.hpp"

namespace rehearse::inline keys {
namespace {

const char* const kIntroduction =
    R"(# Every key of every file

This page is generated from the code (`sim/keys`); a test holds it against what the readers accept.
`rehearse list keys PREFIX` prints a part of it, and this writes it anew:

```sh
./rehearse list keys --format markdown > scenarios/keys.md
```

`schema/` says the same as JSON Schemas. Where an editor speaks to yaml-language-server, a scenario
that begins with `# yaml-language-server: $schema=PATH/schema/scenario.schema.json` is completed and
checked as it is written.

A key's path has a dot between levels; `--set strategy.ddp.bucket_cap_mb=50` changes any of a
scenario's. `[]` stands for each item of a list, `NAME` and `KEY` for any name.

| type | is written as |
|---|---|
| time | a number with its unit: `5us`, `1.5ms`, `30s`, `10min`, `8h`, `30d` |
| size | bytes with their unit: `25MiB`, `80GB` |
| data rate | `25Gbps` (bits) or `300GBps` (bytes) per second |
| arithmetic rate | `312TFLOPs` |
| text (W, kW) | power: `700W`, `1.2kW` |
| as X | takes the same keys and values as X |

A default in parentheses depends on what it says. Every default that a run took stands in its JSON
report under `assumptions`. Keys of files other than scenarios begin with the kind of their file:
`study/vary`.
)";

constexpr std::size_t kLongestLine = 100;

std::string_view source_of(const KeySection& section, const Key& key) {
  return key.source.empty() ? section.source : key.source;
}

std::string section_markdown(const KeySection& section) {
  const char* const space = section.code.size() > kLongestLine - 12 ? "\n" : " ";
  using enum TableColumn::Side;
  Table table({{"key", left},
               {"type", left},
               {"unit", left},
               {"default", left},
               {"source", left},
               {"meaning", left}});
  for (const Key& key : section.keys) {
    table.row({{fmt::format("`{}{}`", section.prefix, key.name), key.type.name(), key.type.unit(),
                key.fallback == "-" ? "" : std::string(key.fallback),
                std::string(source_of(section, key)), std::string(key.meaning)}});
  }
  return fmt::format("\n## {}\nRead by{}`{}`.\n\n", section.title, space,
                     fmt::join(wrap(section.code, kLongestLine - 3), "\n")) +
         table.markdown();
}

}  // namespace

const std::vector<KeySection>& key_sections() {
  static const std::vector<KeySection> kAll = [] {
    std::vector<KeySection> all;
    for (const auto part : {scenario_keys, transformer_keys, strategy_keys, training_keys, cluster_keys, study_keys,
                            profile_keys, measurement_keys})
      std::ranges::move(part(), std::back_inserter(all));
    return all;
  }();
  return kAll;
}

std::string keys_text(std::string_view prefix) {
  std::string text;
  std::vector<std::string> paths;
  for (const KeySection& section : key_sections()) {
    for (const Key& key : section.keys) {
      const std::string& path =
          paths.emplace_back(fmt::format("{}{}", section.prefix, key.name));
      if (!path.starts_with(prefix)) continue;
      const bool has_default = key.fallback != "-" && key.fallback != "required";
      text += fmt::format("{}{}{}\n    {}{}; {}\n    {}\n", path, has_default ? " = " : "",
                          has_default ? key.fallback : "", key.type.text(),
                          key.fallback == "required" ? ", required" : "",
                          source_of(section, key), key.meaning);
    }
  }
  if (!text.empty()) return text;
  const std::string near = nearest(std::string(prefix), paths);
  throw InputError(fmt::format(
      "rehearse: error: no key begins with \"{}\"\nremedy: {}", prefix,
      near.empty() ? "`rehearse list keys` prints all" : fmt::format("did you mean \"{}\"?", near)));
}

std::string keys_named(std::string_view name) {
  for (const KeySection& section : key_sections()) {
    for (const Key& key : section.keys) {
      const std::string path = fmt::format("{}{}", section.prefix, key.name);
      for (std::size_t at = path.find(name); at != std::string::npos; at = path.find(name, at + 1)) {
        const std::size_t end = at + name.size();
        const bool whole = (at == 0 || path[at - 1] == '.' || path[at - 1] == '/') &&
                           (end == path.size() || path[end] == '.');
        if (whole) return keys_text(path.substr(0, end));
      }
    }
  }
  return "";
}

std::vector<std::string> keys_about(const std::vector<std::string>& words) {
  std::vector<std::string> found;
  for (const KeySection& section : key_sections()) {
    for (const Key& key : section.keys) {
      std::string line = fmt::format("{}{}: {}", section.prefix, key.name, key.meaning);
      std::string small = line;
      std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
      if (std::ranges::all_of(words, [&](const std::string& word) { return small.find(word) != std::string::npos; }))
        found.push_back(std::move(line));
    }
  }
  return found;
}

std::vector<std::string> scenario_places(const std::string& key,
                                         const std::vector<std::string>& top) {
  const auto has = [&](const char* name) { return std::ranges::find(top, name) != top.end(); };
  if (!has("model") || !has("cluster")) return {};
  std::vector<std::string> places;
  for (const KeySection& section : key_sections()) {
    if (section.prefix.find('/') != std::string_view::npos) continue;
    for (const Key& one : section.keys) {
      const std::string path = fmt::format("{}{}", section.prefix, one.name);
      const bool is_pattern =
          path.find('[') != std::string::npos || path.find("NAME") != std::string::npos;
      if (!is_pattern && path.substr(path.rfind('.') + 1) == key) places.push_back(path);
    }
  }
  return places;
}

std::vector<std::string> top_keys(std::string_view kind) {
  std::vector<std::string> names;
  for (const KeySection& section : key_sections()) {
    if (section.prefix != kind) continue;
    for (const Key& key : section.keys)
      if (key.name.find_first_of(".[") == std::string::npos) names.emplace_back(key.name);
  }
  return names;
}

std::string keys_markdown() {
  std::string text = kIntroduction;
  for (const KeySection& section : key_sections()) text += section_markdown(section);
  return text;
}

}  // namespace rehearse::inline keys
