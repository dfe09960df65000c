#include "foreign/import_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "config/files_read.hpp"
#include "config/foreign_file.hpp"
#include "config/json_text.hpp"
#include "config/mistakes.hpp"
#include "foreign/format.hpp"

namespace rehearse::inline foreign {
namespace {

struct Read {
  std::vector<Entry> entries;
  const Format* format = nullptr;
};

std::string format_name(const std::string& format) {
  return format == "torchtitan_toml" ? "torchtitan" : format;
}

Read read(const std::filesystem::path& file, const std::string& asked) {
  std::string text = read_input(file, kMaxTextBytes);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && text[first] == '{';
  // JSON may be indented by tabs, and YAML may not.
  if (is_json) std::ranges::replace(text, '\t', ' ');
  const std::string name = file.string();
  const auto known = foreign_file(text, name);
  const auto& names = format_names();
  std::string format = known ? known->format : "";
  const bool is_config = std::ranges::find(names, format_name(format)) != names.end();
  if (!is_config && asked.empty()) {
    if (known) refuse_foreign_file(text, name);
    fail_at({make_text_source(text, name, ""), 0, 0}, "no configuration that is known here",
            fmt::format("say whose it is: --framework {}", fmt::join(names, " or ")));
  }
  if (!asked.empty()) format = asked;
  Read made;
  made.format = &format_of(format_name(format));
  const bool is_toml = !is_json && (format == "torchtitan_toml" || format == "torchtitan");
  made.entries = format == "megatron" && !is_json ? shell_entries(text, name)
                 : is_toml                        ? toml_entries(text, name)
                                                  : yaml_entries(text, name);
  return made;
}

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
std::string framework_of(const std::vector<Read>& files, const Facts& facts) {
  if (value_of(facts, "sync") == "zero" && files.front().format->framework == "torch")
    return "deepspeed";
  for (const Read& file : files)
    if (file.format->framework == "deepspeed") return "deepspeed";
  return files.front().format->framework;
}

[[noreturn]] void fail_cannot(const std::vector<Told>& cannot) {
  std::string text;
  for (const Told& one : cannot)
    text +=
        (text.empty() ? "" : "\n\n") +
        std::string(error_at(one.place,
                             fmt::format("{}: it changes the answer, and cannot be said here: {}",
                                         one.key, one.what))
                        .what());
  throw InputError(text + "\nremedy: --allow leaves out what cannot be said");
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
  std::vector<Read> all;
  ImportedConfig made;
  for (const auto& file : files) {
    all.push_back(read(file, files.size() == 1 ? options.format : ""));
    const Translation told = translate(all.back().entries, *all.back().format);
    merge(made.told.facts, told.facts);
    append(made.told.mapped, told.mapped);
    append(made.told.no_effect, told.no_effect);
    append(made.told.unknown, told.unknown);
    append(made.told.cannot, told.cannot);
  }
  made.title = all.front().format->title;
  if (!made.told.cannot.empty() && !options.allow) fail_cannot(made.told.cannot);
  made.scenario = assemble(made.told.facts, framework_of(all, made.told.facts), options.asked,
                           files.front().string());
  return made;
}

std::string lists_of(const Translation& told) {
  return list("mapped", told.mapped) + list("without effect on time and memory", told.no_effect) +
         list("unknown, left out", told.unknown) +
         list("changes the answer and cannot be said, left out", told.cannot);
}

std::string lists_as_json(const ImportedConfig& imported) {
  const auto rows = [](const std::vector<Told>& told) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Told& one : told)
      list.push_back({{"key", one.key}, {"value", one.value}, {"means", one.what}});
    return list;
  };
  const nlohmann::ordered_json document = {{"schema", "rehearse.imported/1"},
                                           {"what", imported.title},
                                           {"scenario", imported.scenario},
                                           {"mapped", rows(imported.told.mapped)},
                                           {"no_effect", rows(imported.told.no_effect)},
                                           {"unknown", rows(imported.told.unknown)},
                                           {"cannot", rows(imported.told.cannot)}};
  return json_text(document, 2) + "\n";
}

bool is_foreign_config(const std::filesystem::path& file) {
  if (FilesKept::holds(file)) return false;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return false;
  const auto known = foreign_file(read_input(file, kMaxTextBytes), file.string());
  const auto& names = format_names();
  return known && std::ranges::find(names, format_name(known->format)) != names.end();
}

}  // namespace rehearse::inline foreign
