#include "foreign/import_config.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "config/json/json_record.hpp"
#include "config/json/json_text.hpp"
#include "foreign/completeness.hpp"
#include "foreign/config_file.hpp"

namespace rehearse::inline foreign {
namespace {

void append(std::vector<Told>& to, const std::vector<Told>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// What two files say of one thing must be the same.
void merge(Facts& to, const Facts& from) {
  for (const auto& [name, fact] : from) {
    const auto found = to.find(name);
    const bool was_default = found != to.end() && found->second.key.empty();
    if (found == to.end() || (was_default && !fact.key.empty())) {
      to[name] = fact;
    } else if (!fact.key.empty() && found->second.value != fact.value) {
      fail_at(fact.place,
              fmt::format("{} makes {} {}, and {} of the other file makes it {}", fact.key, name,
                          fact.value, found->second.key, found->second.value));
    }
  }
}

/// The first file's format is whose framework it is, but for DeepSpeed, which trains for others.
std::string framework_of(const std::vector<ConfigFile>& files, const Facts& facts) {
  if (has(facts, "rl_framework")) return value_of(facts, "rl_framework");
  if (value_of(facts, "sync") == "zero" && files.front().format->framework == "torch")
    return "deepspeed";
  for (const ConfigFile& file : files)
    if (file.format->framework == "deepspeed") return "deepspeed";
  return files.front().format->framework;
}

std::string list(const std::string& title, const std::vector<Told>& told) {
  std::string text = fmt::format("{} ({})\n", title, told.size());
  for (const Told& one : told)
    text +=
        fmt::format("  {}: {}{}\n", one.key, one.value, one.what.empty() ? "" : "  -> " + one.what);
  return text;
}

}  // namespace

ImportedConfig import_config(const std::vector<std::filesystem::path>& files,
                             const ImportOptionsOfConfig& options) {
  std::vector<ConfigFile> all;
  ImportedConfig made;
  const std::string name = files.front().string();
  for (const auto& file : files) {
    all.push_back(
        read_config_file(file, files.size() == 1 ? options.format : "", options.function));
    const Translation told = translate(all.back().entries, *all.back().format);
    if (options.asked.model.empty() || files.size() == 1)
      check_understood(all.back().entries, told, *all.back().format, file.string());
    merge(made.told.facts, told.facts);
    append(made.told.mapped, told.mapped);
    append(made.told.no_effect, told.no_effect);
    append(made.told.left, told.left);
    append(made.told.unknown, told.unknown);
    append(made.told.cannot, told.cannot);
  }
  made.title = all.front().format->title;
  settle(made.told, options.asked);
  if (!made.told.cannot.empty() && !options.allow) fail_cannot(made.told.cannot);
  const std::string framework = framework_of(all, made.told.facts);
  answer(options.asked, made.told.facts);
  check_complete(made.told, options.asked, files.size() == 1, name);
  tell_defaults(made.told, options.asked);
  made.scenario = assemble(made.told.facts, framework, options.asked, name);
  if (options.read_back) read_back(made.scenario, name);
  return made;
}

std::string lists_of(const Translation& told) {
  return list("mapped", told.mapped) + list("without effect on time and memory", told.no_effect) +
         (told.left.empty() ? "" : list("left to others", told.left)) +
         list("unknown, left out", told.unknown) +
         list("changes the answer and cannot be said, left out", told.cannot);
}

constexpr auto json_fields(const Told*) {
  return std::tuple(field("key", &Told::key), field("value", &Told::value),
                    field("means", &Told::what));
}

namespace {

template <auto kList>
constexpr auto told(const char* key) {
  return derived<ImportedConfig>(key, [](const ImportedConfig& one) { return one.told.*kList; });
}

}  // namespace

constexpr auto json_fields(const ImportedConfig*) {
  using One = ImportedConfig;
  return std::tuple(constant<One>("schema", "rehearse.imported/1"), field("what", &One::title),
                    field("scenario", &One::scenario), told<&Translation::mapped>("mapped"),
                    told<&Translation::no_effect>("no_effect"), told<&Translation::left>("left"),
                    told<&Translation::unknown>("unknown"), told<&Translation::cannot>("cannot"));
}

std::string lists_as_json(const ImportedConfig& imported) {
  return json_text(to_json_value(imported), 2) + "\n";
}

OrderedJson imported_schema() {
  return titled_schema("A scenario from a framework's configuration (rehearse.imported/1)",
                       json_schema<ImportedConfig>());
}

}  // namespace rehearse::inline foreign
