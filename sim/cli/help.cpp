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

/// Finds "word: meaning" in scenarios/glossary.md, whatever letters are large; empty where no line
/// has that word.
std::string glossary_line(const std::string& topic) {
  std::istringstream lines(read_whole_file(data_folder() / "scenarios/glossary.md"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t middle = line.find(" | ", 2);
    if (!line.starts_with("| ") || middle == std::string::npos || !line.ends_with(" |")) continue;
    std::istringstream words(line.substr(2, middle - 2));
    for (std::string word; std::getline(words, word, ',');) {
      word.erase(0, word.find_first_not_of(' '));
      const bool same = small(word) == small(topic) || small(word).starts_with(small(topic) + " (");
      if (same)
        return fmt::format("{}: {}\n", word, line.substr(middle + 3, line.size() - middle - 5));
    }
  }
  return "";
}

std::string key_lines(const std::string& topic) {
  try {
    return keys_text(topic);
  } catch (const InputError&) {
    return "";
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
