#include "foreign/import_config.hpp"

#include <fmt/format.h>

#include <functional>
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
    } else if (found->second.key.starts_with("launcher.")) {
      continue;  // accelerate's command line counts before its file
    } else if (!fact.key.empty() && found->second.value != fact.value) {
      fail_at(fact.place,
              fmt::format("{} makes {} {}, and {} of the other file makes it {}", fact.key, name,
                          fact.value, found->second.key, found->second.value),
              "make both say the same, in a copy");
    }
  }
}

/// A file that another one names, beside it. Paths with a folder may begin in one above, as those
/// of a repository do.
std::filesystem::path found_beside(const std::filesystem::path& file, const std::string& named) {
  const int above = std::filesystem::path(named).has_parent_path() ? 4 : 0;
  std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  for (int i = 0; i <= above; ++i, folder = folder.parent_path()) {
    std::error_code none;
    const std::filesystem::path path = folder / named;
    const bool is_itself = std::filesystem::equivalent(path, file, none);
    if (std::filesystem::is_regular_file(path, none) && !is_itself) return path;
  }
  return {};
}

/// Files that these name and nobody gave. What is not found is told as a setting that cannot be
/// said, unless it says something by itself.
std::vector<std::pair<std::filesystem::path, std::string>> files_named_by(
    const std::filesystem::path& file, Translation& told,
    const std::function<bool(const std::string&)>& has_format) {
  std::vector<std::pair<std::filesystem::path, std::string>> more;
  for (NamedFile& one : told.named) {
    Told& setting = one.setting;
    const auto path = one.unless.empty() && !has_format(one.format)
                          ? found_beside(file, setting.value)
                          : std::filesystem::path();
    if (!path.empty()) more.emplace_back(path, one.format);
    if (has_format(one.format) || !path.empty()) {
      setting.what = "its settings count, too";
      told.mapped.push_back(setting);
    } else if (!one.says_some) {
      setting.what =
          fmt::format("{}; give both files: `rehearse import config A B`",
                      one.unless.empty() ? "that file says how it trains, and is none that is there"
                                         : one.unless);
      told.cannot.push_back(setting);
    }
  }
  return more;
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
  std::vector<std::pair<std::filesystem::path, std::string>> queue;
  for (const auto& file : files) queue.emplace_back(file, files.size() == 1 ? options.format : "");
  for (std::size_t i = 0; i < queue.size(); ++i)
    all.push_back(read_config_file(queue[i].first, queue[i].second, options.function));
  const auto has_format = [&](const std::string& format) {
    return std::ranges::any_of(all, [&](const auto& one) { return one.format->name == format; });
  };
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const std::filesystem::path file = queue[i].first;
    Translation told = translate(all[i].entries, *all[i].format);
    for (const auto& [path, format] : files_named_by(file, told, has_format)) {
      queue.emplace_back(path, format);
      all.push_back(read_config_file(path, format, ""));
    }
    if (options.asked.model.empty() || files.size() == 1)
      check_understood(all[i].entries, told, *all[i].format, file.string());
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
  check_complete(made.told, options.asked, all.size() == 1, name);
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
