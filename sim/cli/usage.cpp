#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.hpp"
#include "config/document.hpp"

namespace rehearse::inline cli {
namespace {

const char* const kEmptyValue = "its value is empty";

std::string with_remedy(const std::string& message, const std::string& remedy) {
  return fmt::format("rehearse: error: {}\nremedy: {}", message, remedy);
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known,
                       const std::string& otherwise) {
  const std::string near = nearest(word, known);
  return near.empty() ? otherwise : fmt::format("did you mean \"{}\"?", near);
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// Whether Python or the launcher does it, which find this program.
bool is_beside_this_program(const std::string& word) {
  return word == "import record" || word == "record" || word == "capture" || word == "calibrate" ||
         word == "testbed";
}

}  // namespace

void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options())
    if (!option->get_lnames().empty() && option->get_type_size() != 0)
      option->check([](const std::string& value) { return value.empty() ? kEmptyValue : ""; }, "");
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    refuse_empty_values(*command);
}

std::string usage_message(const CLI::App& app, const CLI::ParseError& wrong, int argc,
                          char** argv) {
  // The command that the words up to here name.
  const CLI::App* command = &app;
  std::string path = "rehearse";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::vector<std::string> commands = command_names(*command);
    if (std::find(commands.begin(), commands.end(), word) != commands.end()) {
      command = command->get_subcommand(word);
      path += " " + word;
    } else if (const std::string whole = command == &app ? word : command->get_name() + " " + word;
               is_beside_this_program(whole)) {
      return with_remedy(
          fmt::format("{} is no command of this program alone", whole),
          fmt::format("./rehearse {} in a checkout, or the wheel's rehearse {}", whole, whole));
    } else if (!commands.empty() && word.rfind('-', 0) != 0) {
      return with_remedy(
          fmt::format("unknown command \"{}\"", word),
          suggestion(word, commands, fmt::format("known: {}", fmt::join(commands, ", "))));
    } else if (word.rfind("--", 0) == 0) {
      const std::string option = word.substr(0, word.find('='));
      const std::vector<std::string> known = option_names(*command);
      if (std::find(known.begin(), known.end(), option) == known.end()) {
        return with_remedy(fmt::format("unknown option \"{}\"", option),
                           suggestion(option, known, path + " --help lists the options"));
      }
    }
  }
  if (!command_names(*command).empty()) {
    return with_remedy("a command is missing",
                       fmt::format("known: {}", fmt::join(command_names(*command), ", ")));
  }
  const std::string_view what = wrong.what();
  const bool empty = what.ends_with(kEmptyValue);
  if (what.find(" excludes ") != std::string_view::npos)
    return with_remedy(wrong.what(), "leave one of the two out");
  return with_remedy(wrong.what(), empty ? "give it one, or leave the option out"
                                         : path + " --help shows how it is used");
}

}  // namespace rehearse::inline cli
