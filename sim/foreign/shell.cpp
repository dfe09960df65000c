// Options of a command line, or of the one that trains in a shell script.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/error.hpp"
#include "foreign/entry.hpp"
#include "foreign/shell_script.hpp"

namespace rehearse::inline foreign {
namespace {

using Words = std::vector<MarkedText>;

bool is_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' &&
         std::isdigit(static_cast<unsigned char>(word[1])) == 0 && word[1] != '.';
}

bool is_script(const std::string& word) { return word.ends_with(".py") && !is_option(word); }

/// Programs that train without a script being named.
bool is_trainer(const std::string& word) {
  static const std::set<std::string> kNames = {
      "swift", "megatron", "llamafactory-cli", "trl", "axolotl", "litgpt", "tune"};
  return kNames.contains(word.substr(word.rfind('/') + 1));
}

/// Modules that launch a script, which follows.
bool is_launcher(const std::string& module) {
  return module == "torch.distributed.launch" || module == "torch.distributed.run" ||
         module == "accelerate.commands.launch";
}
bool names_module(const std::string& word) { return word == "-m" || word == "--module"; }
bool begins(const std::string& word) { return is_script(word) || is_trainer(word); }

/// Words of `bash -c "torchrun ..."` one by one.
Words opened(const Words& command) {
  Words words;
  for (const MarkedText& word : command) {
    const std::string text = plain(word);
    const bool holds_command = text.find(' ') != std::string::npos &&
                               text.find("--") != std::string::npos && !is_option(text);
    if (!holds_command) {
      words.push_back(word);
      continue;
    }
    for (MarkedText& part : split(word, true)) words.push_back(std::move(part));
  }
  return words;
}

/// `python mason.py --cluster X -- accelerate launch ...`: the command behind a lone `--`, where it
/// starts a script.
Words launched(Words words) {
  for (std::size_t i = words.size(); i-- > 0;) {
    const bool cuts = plain(words[i]) == "--" &&
                      std::any_of(words.begin() + static_cast<std::ptrdiff_t>(i), words.end(),
                                  [](const auto& word) { return begins(plain(word)); });
    if (cuts) return {words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end()};
  }
  return words;
}

struct ShellReader {
  std::shared_ptr<const TextSource> source;
  std::vector<Entry> entries;

  TextPosition place_of(const MarkedChar& one) const { return {source, one.line, one.byte}; }

  void add(const std::string& key, const MarkedText& at, const Words& values) {
    if (entries.size() >= kMostEntries)
      fail_at(place_of(at.front()), fmt::format("more than {} settings in one file", kMostEntries));
    Entry entry;
    entry.key = key;
    entry.place = place_of(at.front());
    if (!values.empty()) entry.place = place_of(values.front().front());
    entry.value = values.empty() ? "true" : canonical(plain(values.front()));
    entry.said = values.empty() ? "true" : plain(values.front());
    if (values.size() > 1) {
      entry.value = entry.said = "[";
      for (const MarkedText& value : values) {
        const std::string comma = entry.value.size() > 1 ? ", " : "";
        entry.value += comma + canonical(plain(value));
        entry.said += comma + plain(value);
      }
      entry.value += "]";
      entry.said += "]";
    }
    entry.unless = condition(at);
    for (const MarkedText& value : values)
      if (entry.unless.empty()) entry.unless = condition(value);
    entries.push_back(std::move(entry));
  }

  static std::string condition(const MarkedText& word) {
    for (const MarkedChar& one : word) {
      if (one.unset) return fmt::format("the file does not say what {} is", plain(word));
      if (one.condition > 0)
        return fmt::format("it stands under a condition or a loop of line {}", one.condition);
    }
    return "";
  }

  /// The script itself: what Megatron-LM trains is a script's, not an option's.
  void add_script(const MarkedText& word) {
    const std::string path = plain(word);
    const std::size_t slash = path.rfind('/') + 1;  // 0 where there is none
    const auto name = word.begin() + static_cast<std::ptrdiff_t>(slash);
    add("launcher.script", word, {MarkedText(name, word.end())});
  }

  /// Options of a command; those before the script, or the module behind -m, are the launcher's.
  void read(const Words& words, const std::string& prefix) {
    const auto starts = [&](std::size_t i) {
      const std::string word = plain(words[i]);
      return begins(word) ||
             (names_module(word) && i + 1 < words.size() && !is_launcher(plain(words[i + 1])));
    };
    bool launcher = false;
    for (std::size_t i = 0; i < words.size(); ++i) launcher = launcher || starts(i);
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string word = plain(words[i]);
      if (launcher && starts(i)) {
        launcher = false;
        i = begins(word) ? i : i + 1;
        add_script(words[i]);
        continue;
      }
      if (is_option(word))
        read_option(words, i, prefix, launcher);
      else if (!launcher && prefix.empty())
        read_assignment(words[i]);
    }
  }

  /// `--name value...` or `--name=value` at words[i], which then is its last word.
  void read_option(const Words& words, std::size_t& i, const std::string& prefix, bool launcher) {
    const MarkedText& at = words[i];
    const std::string word = plain(at);
    std::string name = word.substr(word.starts_with("--") ? 2 : 1);
    Words values;
    // An array's item "--fp8-format hybrid" is meant as two words, whatever a shell makes of it.
    const std::size_t equals = name.find_first_of("= ");
    if (equals != std::string::npos) {
      const std::size_t skip = word.size() - name.size() + equals + 1;
      if (skip < at.size())
        values.emplace_back(at.begin() + static_cast<std::ptrdiff_t>(skip), at.end());
      name = name.substr(0, equals);
    } else {
      while (i + 1 < words.size() && !is_option(plain(words[i + 1])) &&
             !(launcher && begins(plain(words[i + 1]))))
        values.push_back(words[++i]);
      if (launcher && values.size() > 1) values.resize(1);
    }
    std::ranges::replace(name, '-', '_');
    add(prefix + (launcher ? "launcher." : "") + name, at, values);
  }

  /// `key=value`, as OmegaConf takes it.
  void read_assignment(const MarkedText& at) {
    std::string word = plain(at);
    const std::size_t plus = word.starts_with('+') ? 1 : 0;
    const std::size_t equals = word.find('=');
    const bool is_key = equals != std::string::npos && equals > plus && equals + 1 < word.size() &&
                        std::islower(static_cast<unsigned char>(word[plus])) != 0;
    if (is_key)
      add(word.substr(plus, equals - plus), at,
          {MarkedText(at.begin() + static_cast<std::ptrdiff_t>(equals) + 1, at.end())});
  }
};

/// What stands alike in two branches of a condition holds either way.
void settle(std::vector<Entry>& entries) {
  std::map<std::string, std::vector<std::size_t>> by_key;
  for (std::size_t i = 0; i < entries.size(); ++i) by_key[entries[i].key].push_back(i);
  for (const auto& [key, places] : by_key) {
    const Entry& first = entries[places.front()];
    const bool alike = std::ranges::all_of(places, [&](std::size_t i) {
      return entries[i].value == first.value && entries[i].unless == first.unless;
    });
    if (places.size() < 2 || !alike || !first.unless.starts_with("it stands under")) continue;
    for (const std::size_t i : places) entries[i].unless.clear();
  }
}

/// Variables of the environment that change how long a step takes, or what it holds.
bool counts(const std::string& variable) {
  return variable == "CUDA_LAUNCH_BLOCKING" || variable == "TORCH_NCCL_AVOID_RECORD_STREAMS";
}

std::size_t options_in(const Words& words) {
  return static_cast<std::size_t>(
      std::ranges::count_if(words, [](const auto& word) { return is_option(plain(word)); }));
}

}  // namespace

std::vector<Entry> shell_entries(const std::string& text, const std::string& name) {
  const auto source = make_text_source(text, name, std::filesystem::path(name).parent_path());
  const ShellScript script(source);
  Words chosen;
  for (const Words& command : script.commands()) {
    const Words words = launched(opened(command));
    if (words.empty()) continue;
    const bool trains =
        std::ranges::any_of(words, [](const auto& w) { return begins(plain(w)); }) ||
        std::ranges::any_of(words, [](const auto& w) { return names_module(plain(w)); }) ||
        is_option(plain(words.front()));
    if (trains && options_in(words) > options_in(chosen)) chosen = words;
  }
  if (chosen.empty())
    fail_at({source, 0, 0}, "no command that runs a Python script with options",
            "give the command line itself: torchrun ... pretrain_gpt.py --num-layers 32 ...");
  ShellReader reader{source, {}};
  for (const Words& options : script.batch_options()) reader.read(options, "sbatch.");
  for (const auto& [variable, value] : script.assigned())
    if (counts(variable)) reader.add("env_vars." + variable, value, {value});
  reader.read(chosen, "");
  settle(reader.entries);
  return std::move(reader.entries);
}

}  // namespace rehearse::inline foreign
