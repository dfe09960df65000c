// `rehearse man [COMMAND]`: a page for man, made of what --help says.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"

namespace rehearse::inline cli {
namespace {

/// Text that troff takes as it is.
std::string escaped(const std::string& text) {
  std::string safe;
  for (const char letter : text) {
    if (letter == '\\') {
      safe += "\\e";
    } else if (letter == '-') {
      safe += "\\-";
    } else {
      safe += letter;
    }
  }
  return safe.starts_with('.') || safe.starts_with('\'') ? "\\&" + safe : safe;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

/// The lines between two headings of --help as they are; a page of man keeps their columns.
std::string as_it_is(const std::string& text) {
  std::istringstream lines(text);
  std::string out = ".nf\n";
  for (std::string line; std::getline(lines, line);) out += escaped(line) + "\n";
  return out + ".fi\n";
}

std::string spread(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return escaped(text);
}

std::string option_entry(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) names += "--" + name + ", ";
  if (names.empty()) names = option.get_name(true) + ", ";
  names.resize(names.size() - 2);
  const std::string type = option.get_type_size() == 0 ? "" : option.get_type_name();
  return fmt::format(".TP\n.B {}{}\n{}\n", escaped(names),
                     type.empty() ? "" : " \\fI" + escaped(type.substr(0, type.find(':'))) + "\\fR",
                     spread(option.get_description()));
}

/// The pages of the commands, of rehearse itself; of a command that of rehearse.
std::string see_also(const std::vector<const CLI::App*>& commands) {
  if (commands.empty()) return ".BR rehearse (1)\n";
  std::vector<std::string> pages;
  for (const CLI::App* one : commands)
    pages.push_back(".BR rehearse\\-" + escaped(one->get_name()) + " (1)");
  return fmt::format("{}\n", fmt::join(pages, ",\n"));
}

std::string page(const CLI::App& command, const std::string& words) {
  std::string name = words;
  std::ranges::replace(name, ' ', '-');
  std::string text =
      fmt::format(".TH {} 1 \"\" \"rehearse " REHEARSE_VERSION
                  "\" \"Rehearse\"\n.SH NAME\n{} \\- {}\n"
                  ".SH SYNOPSIS\n.B {}\n[OPTION...] [WORD...]\n",
                  upper(name), escaped(name), spread(command.get_description()), escaped(words));
  const auto commands = command.get_subcommands([](const CLI::App*) { return true; });
  if (!commands.empty()) text += ".SH COMMANDS\n";
  for (const CLI::App* one : commands)
    text +=
        fmt::format(".TP\n.B {}\n{}\n", escaped(one->get_name()), spread(one->get_description()));
  text += ".SH OPTIONS\n";
  for (const CLI::Option* option : command.get_options()) text += option_entry(*option);
  if (!command.get_footer().empty()) text += ".SH EXAMPLES\n" + as_it_is(command.get_footer());
  return text +
         ".SH EXIT STATUS\n0 a result, 1 a bound not met, 2 wrong input, 3 a simulation that "
         "cannot "
         "finish, 4 something missing, 70 a bug of rehearse, 130 or 143 stopped.\n"
         ".SH SEE ALSO\n" +
         see_also(commands);
}

const CLI::App& command_called(const CLI::App& app, const std::string& name) {
  std::vector<std::string> known;
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (one->get_name() == name) return *one;
    known.push_back(one->get_name());
  }
  throw InputError(fmt::format("rehearse: error: no command is called \"{}\"\nremedy: known: {}",
                               name, fmt::join(known, ", ")));
}

}  // namespace

void add_man(CLI::App& app) {
  const auto command = std::make_shared<std::string>();
  CLI::App& man = *app.add_subcommand("man", "Print a page for man");
  man.add_option("COMMAND", *command, "A command; none: rehearse itself");
  man.footer(
      "Examples:\n"
      "  rehearse man run | man -l -\n"
      "  rehearse man > ~/.local/share/man/man1/rehearse.1");
  man.callback([command, &app] {
    write_stdout(command->empty() ? page(app, "rehearse")
                                  : page(command_called(app, *command), "rehearse " + *command));
  });
}

}  // namespace rehearse::inline cli
