// `rehearse help TOPIC`: a command, a key, a word of the glossary, or one of a few pages.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "base/data_folder.hpp"
#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/help_topics.hpp"
#include "cli/options.hpp"
#include "config/whole_file.hpp"
#include "keys/keys.hpp"

namespace rehearse::inline cli {
namespace {

constexpr std::array kTopics = {
    Topic{"exit-codes",
          "0    a result\n"
          "1    a bound that was asked for does not hold, or points of a study have no result\n"
          "2    wrong input: the message shows where, and a remedy\n"
          "3    a simulation that cannot finish\n"
          "4    something is missing, or cannot be written\n"
          "70   a bug of rehearse\n"
          "130  stopped by Ctrl-C; 143: by SIGTERM\n"},
    Topic{"environment",
          "REHEARSE_DATA  the folder with platforms/ and scenarios/, in place of the shipped one\n"
          "NO_COLOR       set and not empty: no colours, unless --color always asks for them\n"
          "TERM           dumb: likewise no colours, and no line of progress that is drawn over\n"
          "COLUMNS        not read: the terminal itself says how wide it is; elsewhere 100\n"},
    Topic{"files",
          "A scenario has model, cluster and strategy. A study has scenario and vary, a plan\n"
          "scenario and objective. `rehearse list scenarios`, `studies` and `plans` name the\n"
          "shipped ones, which every command takes by their names: rehearse run toy_ddp.\n"
          "- stands for standard input.\n"},
    Topic{
        "units",
        "Times: ns us ms s min h. Sizes: B kB MB GB TB (powers of 1000), KiB MiB GiB TiB (powers\n"
        "of 1024). Rates: GBps or GB/s, Gbps or Gbit/s. Work: GFLOP; its rate: TFLOPs. Counts of\n"
        "tokens: 15B, 1.5T. A bare number where a unit belongs is an error.\n"}};

std::string small(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// A line of scenarios/glossary.md.
struct Word {
  std::vector<std::string> names;  ///< that mean the same
  std::string meaning;
};

std::vector<Word> glossary() {
  std::vector<Word> words;
  std::istringstream lines(read_whole_file(data_folder() / "scenarios/glossary.md"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t middle = line.find(" | ", 2);
    if (!line.starts_with("| ") || middle == std::string::npos || !line.ends_with(" |")) continue;
    Word& word = words.emplace_back();
    word.meaning = line.substr(middle + 3, line.size() - middle - 5);
    std::istringstream names(line.substr(2, middle - 2));
    for (std::string name; std::getline(names, name, ',');)
      word.names.push_back(name.substr(name.find_first_not_of(' ')));
  }
  return words;
}

/// "word: meaning" of the glossary, whatever letters are large; empty where it lacks that word.
std::string glossary_line(const std::string& topic) {
  for (const Word& word : glossary())
    for (const std::string& name : word.names)
      if (small(name) == small(topic) || small(name).starts_with(small(topic) + " ("))
        return fmt::format("{}: {}\n", name, word.meaning);
  return "";
}

/// The word without its ending, so that "clipping" finds clip_grad and "straggling" a straggler.
std::string stem(const std::string& word) {
  constexpr std::size_t kEnding = 4, kLeast = 4;
  return word.substr(0, std::max(kLeast, word.size() - std::min(word.size(), kEnding)));
}

/// Lines of the glossary and keys that speak of all words of `topic`; empty where none does.
std::string mentions_of(const std::string& topic) {
  constexpr std::size_t kMost = 12;
  std::vector<std::string> words;
  std::istringstream text(small(topic));
  for (std::string word; text >> word;) words.push_back(stem(word));
  std::vector<std::string> found;
  for (const Word& word : glossary()) {
    std::string line = fmt::format("{}: {}", fmt::join(word.names, ", "), word.meaning);
    const std::string letters = small(line);
    if (std::ranges::all_of(
            words, [&](const std::string& one) { return letters.find(one) != std::string::npos; }))
      found.push_back(std::move(line));
  }
  std::ranges::move(keys_about(words), std::back_inserter(found));
  if (found.empty() || words.empty() || topic.size() < 3) return "";
  const std::size_t more = found.size() - std::min(found.size(), kMost);
  found.resize(std::min(found.size(), kMost));
  return fmt::format("no page of its own; these speak of {}:\n  {}\n", topic,
                     fmt::join(found, "\n  ")) +
         (more == 0 ? "" : fmt::format("and {} more: `rehearse list keys` prints all\n", more));
}

std::string key_lines(const std::string& topic) {
  try {
    return keys_text(topic);
  } catch (const InputError&) {
    return keys_named(topic);
  }
}

std::vector<std::string> topics_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  for (const Topic& topic : kTopics) names.emplace_back(topic.name);
  for (const Topic& topic : kLossTopics) names.emplace_back(topic.name);
  return names;
}

std::string help_on(const CLI::App& app, const std::string& topic) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (command->get_name() == topic) return command->help("rehearse");
  for (const Topic& one : kTopics)
    if (one.name == topic) return one.text;
  std::string text = glossary_line(topic);
  for (const Topic& one : kLossTopics)
    if (one.name == topic) text += (text.empty() ? "" : "\n") + std::string(one.text);
  const std::string keys = key_lines(topic);
  if (!keys.empty()) text += (text.empty() ? "" : "\n") + keys;
  if (!text.empty()) return text;
  const std::vector<std::string> known = topics_of(app);
  const std::string near = nearest(topic, known);
  if (near.empty()) text = mentions_of(topic);
  if (!text.empty()) return text;
  throw InputError(fmt::format(
      "rehearse: error: no help on \"{}\"\nremedy: {}", topic,
      near.empty()
          ? fmt::format("a key such as model.sequence, a word of the glossary, or one of {}",
                        fmt::join(known, ", "))
          : fmt::format("did you mean \"{}\"?", near)));
}

}  // namespace

void add_help_topic(CLI::App& app) {
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App& help = *app.add_subcommand("help", "Explain a command, a key, or a word");
  help.add_option("TOPIC", *words,
                  "A command, a key (model.sequence), a word (MFU), exit-codes,\n"
                  "environment, files, units, loss, diloco or \"batch size\";\nnone: all commands");
  help.callback([words, &app] {
    const std::string topic = fmt::format("{}", fmt::join(*words, " "));
    write_stdout(topic.empty() ? app.help() : help_on(app, topic));
  });
}

}  // namespace rehearse::inline cli
