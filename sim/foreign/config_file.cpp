#include "foreign/config_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "config/files_read.hpp"
#include "config/foreign_file.hpp"
#include "config/mistakes.hpp"

namespace rehearse::inline foreign {
namespace {

std::string format_name(const std::string& format) {
  return format == "torchtitan_toml" ? "torchtitan" : format;
}

/// Whether a text is a shell's: it names its shell, or its first line is no `key: value`.
bool is_shell(std::string_view text) {
  if (text.starts_with("#!")) return true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == line.npos || line[first] == '#' || line.substr(first) == "---") continue;
    // `--num-layers: 24` is a key of YAML.
    if (std::string_view("{[-\"'").find(line[first]) != std::string_view::npos)
      return line.substr(first).starts_with("--") &&
             line.find(':', first) >= line.find_first_of(" \t=", first);
    const std::size_t colon = line.find(':', first);
    const std::size_t blank = line.find_first_of(" \t=", first);
    return colon == line.npos || blank < colon;
  }
  return false;
}

/// "[accelerate, launch]" is "accelerate launch".
std::string words_of_list(const std::string& list) {
  std::string words;
  for (std::size_t i = 1; i + 1 < list.size(); ++i)
    if (list[i] != ',' || list[i + 1] != ' ') words += list[i];
  return words;
}

/// The command that a job's YAML starts (`run: |` of SkyPilot, `arguments:` of Beaker, whose items
/// are words); empty: none.
std::string command_in(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries)
    for (const char* launcher : {"accelerate launch", "torchrun ", "deepspeed ", "swift sft"})
      if (entry.said.find(launcher) != std::string::npos &&
          entry.said.find(" --") != std::string::npos)
        return entry.said.starts_with('[') ? words_of_list(entry.said) : entry.said;
  return "";
}

std::vector<Entry> entries_of_file(std::string text, const std::string& name,
                                   const std::string& format, const std::string& function) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && text[first] == '{';
  // JSON may be indented by tabs, and YAML may not.
  if (is_json) std::ranges::replace(text, '\t', ' ');
  if (is_json) return yaml_entries(text, name);
  if (text.find("\ndef ") != std::string::npos) return python_entries(text, name, function);
  if (format_name(format) == "torchtitan") return toml_entries(text, name);
  if (is_shell(text)) return shell_entries(text, name);
  std::vector<Entry> entries = yaml_entries(text, name);
  const std::string command = command_in(entries);
  return command.empty() ? entries : shell_entries(command, name + " (its command)");
}

/// Settings that stand below a launcher's map are those of the format, where it knows more of them
/// than of what stands above.
void unwrap(std::vector<Entry>& entries, const Format& format) {
  constexpr std::size_t kFew = 4;
  std::map<std::string, std::size_t> known;
  for (const Entry& entry : entries) {
    known[""] += format.knows(entry.key) ? 1 : 0;
    for (std::size_t dot = entry.key.find('.'); dot != std::string::npos;
         dot = entry.key.find('.', dot + 1))
      known[entry.key.substr(0, dot + 1)] += format.knows(entry.key.substr(dot + 1)) ? 1 : 0;
  }
  const auto best = std::ranges::max_element(known, {}, [](const auto& one) { return one.second; });
  if (best == known.end() || best->second < kFew || best->second <= 2 * known[""]) return;
  for (Entry& entry : entries)
    if (entry.key.starts_with(best->first)) entry.key.erase(0, best->first.size());
}

/// GPT-NeoX has hyphens in its keys, or underscores.
void read_hyphens(std::vector<Entry>& entries, const Format& format) {
  for (Entry& entry : entries) {
    if (entry.key.find('-') == std::string::npos || format.knows(entry.key)) continue;
    std::string other = entry.key;
    std::ranges::replace(other, '-', '_');
    if (!format.rules_of(other).empty()) entry.key = other;
  }
}

/// `--num-layers: 24` of a YAML is the command line's option; flags that are false are not there.
void read_as_options(std::vector<Entry>& entries) {
  for (Entry& entry : entries) {
    const std::size_t dashes = entry.key.rfind("--");
    if (dashes == std::string::npos || (dashes > 0 && entry.key[dashes - 1] != '.')) continue;
    entry.key.erase(0, dashes + 2);
    std::ranges::replace(entry.key, '-', '_');
  }
}

/// What a script starts, where that is no program that is known here, and the files that it names.
[[noreturn]] void fail_unknown_script(const std::string& text, const std::string& name,
                                      const TextPosition& top, const std::string& usual) {
  std::string starts, named;
  try {
    for (const Entry& entry : shell_entries(text, name)) {
      if (entry.key == "launcher.script") starts = entry.said;
      const std::string& file = entry.said;
      const bool is_config = file.ends_with(".json") || file.ends_with(".yaml") ||
                             file.ends_with(".yml") || file.ends_with(".toml");
      const bool trains = entry.key.starts_with("deepspeed") || entry.key == "config" ||
                          entry.key == "launcher.config_file";
      if (is_config && trains && entry.unless.empty()) named = file;
    }
  } catch (const InputError&) {
    // It starts nothing.
  }
  if (starts.empty())
    fail_at(top, "a script, and none of its commands is of a framework that is read here", usual);
  fail_at(top, fmt::format("a script that starts {}, whose own options are not known here", starts),
          named.empty() ? usual : fmt::format("import {}, the file that it names", named));
}

/// A format is suggested where it knows several of the file's settings.
[[noreturn]] void fail_unknown(const std::string& text, const std::string& name) {
  constexpr std::ptrdiff_t kSeveral = 3;
  constexpr std::ptrdiff_t kOwn = 3;
  const char* const usual =
      "give the configuration or the command line of its training, or write a scenario: `rehearse "
      "run --model NAME --on NxCLUSTER` needs no file";
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw InputError(fmt::format("{}: error: the file is empty\nremedy: {}", name, usual));
  const TextPosition top{make_text_source(text, name, ""), 0, 0};
  if (is_shell(text)) fail_unknown_script(text, name, top, usual);
  std::string likely;
  try {
    const std::vector<Entry> entries = yaml_entries(text, name);
    std::ptrdiff_t most = kSeveral - 1;
    const auto look_at = [&](const Format& format) {
      const auto known = std::ranges::count_if(
          entries, [&](const Entry& entry) { return format.knows(entry.key); });
      // A format that extends another knows some settings of its own, too.
      if (known <= most + (!likely.empty() && format.base == likely ? kOwn : 0)) return;
      most = known;
      likely = format.name;
    };
    for (const bool extends : {false, true})
      for (const std::string& one : format_names())
        if (format_of(one).base.empty() != extends) look_at(format_of(one));
  } catch (const InputError&) {
    // No tree: nothing is likely.
  }
  fail_at(top, "no configuration that is known here",
          likely.empty() ? usual : "say whose it is: --framework " + likely);
}

/// Whether the format that is named trains with rewards or pairs: its files need not say so.
bool is_of_rewards(const std::string& asked) {
  if (asked.empty()) return false;
  return std::ranges::any_of(format_of(format_name(asked)).defaults,
                             [](const auto& one) { return one.first == "rl.algorithm"; });
}

/// True where a format stands on another one, or on one that does.
bool extends(const std::string& format, const std::string& other) {
  const std::string base = format_of(format_name(format)).base;
  return !base.empty() && (base == other || extends(base, other));
}

}  // namespace

ConfigFile read_config_file(const std::filesystem::path& file, const std::string& asked,
                            const std::string& function) {
  const std::string text = read_input(file, kMaxTextBytes);
  const std::string name = file.string();
  const auto known = foreign_file(text, name);
  const auto& names = format_names();
  std::string format = known ? known->format : "";
  const bool is_config = std::ranges::find(names, format_name(format)) != names.end();
  if (known && !is_config && (asked.empty() || known->format.empty()) && !is_of_rewards(asked))
    refuse_foreign_file(text, name);
  if (!is_config && asked.empty()) fail_unknown(text, name);
  // A framework's name is the supervised format's: what trains with pairs extends it.
  const bool is_more = is_config && is_of_rewards(format) && extends(format, asked);
  if (!asked.empty() && !is_more) format = asked;
  ConfigFile made;
  made.format = &format_of(format_name(format));
  made.entries = entries_of_file(text, name, format, function);
  read_as_options(made.entries);
  read_hyphens(made.entries, *made.format);
  if (is_shell(text))
    std::erase_if(made.entries, [&](const Entry& one) {
      return one.key.starts_with("env_vars.") && made.format->rules_of(one.key).empty();
    });
  unwrap(made.entries, *made.format);
  return made;
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
