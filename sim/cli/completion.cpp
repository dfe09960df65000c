// `rehearse completion SHELL`: what bash, zsh and fish complete, made from the commands themselves.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "cli/commands.hpp"
#include "cli/options.hpp"

namespace rehearse::inline cli {
namespace {

/// An option's value is completed with these: words, or the first column of `rehearse list KIND`.
struct Values {
  const char *option, *words, *list;
};
constexpr std::array kValues = {Values{"--format", "table json csv", nullptr},
                                Values{"--color", "auto always never", nullptr},
                                Values{"--fidelity", "hop flow folded auto", nullptr},
                                Values{"--fail-unless", "fits may_fit", nullptr},
                                Values{"--launcher", "local slurm", nullptr},
                                Values{"--model", nullptr, "models"},
                                Values{"--on", nullptr, "clusters"},
                                Values{"--cluster", nullptr, "clusters"},
                                Values{"--strategy", nullptr, "strategies"}};
/// A command's own words are completed with these, beside files.
constexpr std::array kWords = {
    Values{"run", nullptr, "scenarios"},
    Values{"explain", nullptr, "scenarios"},
    Values{"compare", nullptr, "scenarios"},
    Values{"check", nullptr, "scenarios"},
    Values{"sweep", nullptr, "studies"},
    Values{"plan", nullptr, "plans"},
    Values{"model", nullptr, "models"},
    Values{"completion", "bash zsh fish", nullptr},
    Values{"list",
           "models clusters gpus strategies optimizers profiles scenarios studies plans keys",
           nullptr}};

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::string words_of(const Values& values) {
  return values.list == nullptr
             ? values.words
             : fmt::format("$(rehearse list {} 2>/dev/null | cut -d' ' -f1)", values.list);
}

std::string bash_script(const CLI::App& app) {
  std::string values, commands, options, words;
  for (const Values& one : kValues)
    values += fmt::format("    {}) COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return ;;\n",
                          one.option, words_of(one));
  for (const CLI::App* command : commands_of(app)) {
    commands += (commands.empty() ? "" : " ") + command->get_name();
    options += fmt::format("    {}) options=\"{}\" ;;\n", command->get_name(),
                           fmt::join(options_of(*command), " "));
  }
  for (const Values& one : kWords)
    words += fmt::format("    {}) words=\"{}\" ;;\n", one.option, words_of(one));
  return fmt::format(
      "# bash completion of rehearse: eval \"$(rehearse completion bash)\"\n"
      "_rehearse() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "  local options=\"\" words=\"\"\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W \"{} --help --version\" -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case $previous in\n{}  esac\n"
      "  case ${{COMP_WORDS[1]}} in\n{}  esac\n"
      "  if [[ $current == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$options\" -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n{}    help) words=\"{}\" ;;\n  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\") $(compgen -f -- \"$current\"))\n"
      "}}\n"
      "complete -F _rehearse rehearse ./rehearse\n",
      commands, values, options, words, commands);
}

std::string zsh_script(const CLI::App& app) {
  return "#compdef rehearse\n"
         "# zsh completion of rehearse: eval \"$(rehearse completion zsh)\"\n"
         "autoload -U +X compinit && compinit -u\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_script(app);
}

/// Between single quotes of fish.
std::string fish_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text.substr(0, text.find('\n')))
    quoted +=
        letter == '\'' || letter == '\\' ? std::string("\\") + letter : std::string(1, letter);
  return quoted + "'";
}

std::string fish_values(const Values& one) {
  return one.list == nullptr ? fish_quoted(one.words)
                             : fmt::format(
                                   "'(rehearse list {} 2>/dev/null | string replace -r "
                                   "\" .*\" \"\")'",
                                   one.list);
}

std::string fish_script(const CLI::App& app) {
  std::string text = "# fish completion of rehearse: rehearse completion fish | source\n";
  for (const CLI::App* command : commands_of(app)) {
    const std::string seen = fmt::format("complete -c rehearse -n '__fish_seen_subcommand_from {}'",
                                         command->get_name());
    text += fmt::format("complete -c rehearse -n __fish_use_subcommand -a {} -d {}\n",
                        command->get_name(), fish_quoted(command->get_description()));
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames())
        text +=
            fmt::format("{} -l {} -d {}{}\n", seen, name, fish_quoted(option->get_description()),
                        option->get_type_size() == 0 ? "" : " -r");
  }
  for (const Values& one : kValues)
    text += fmt::format("complete -c rehearse -l {} -x -a {}\n", std::string(one.option).substr(2),
                        fish_values(one));
  for (const Values& one : kWords)
    text += fmt::format("complete -c rehearse -n '__fish_seen_subcommand_from {}' -a {}\n",
                        one.option, fish_values(one));
  return text;
}

}  // namespace

void add_completion(CLI::App& app) {
  const auto shell = std::make_shared<std::string>();
  CLI::App& completion = *app.add_subcommand("completion", "Print what a shell completes");
  add_choice(completion, "SHELL", *shell, "bash, zsh or fish", {"bash", "zsh", "fish"}, "")
      ->required();
  completion.footer(
      "Examples:\n"
      "  eval \"$(rehearse completion bash)\"           in ~/.bashrc\n"
      "  eval \"$(rehearse completion zsh)\"            in ~/.zshrc\n"
      "  rehearse completion fish | source            in ~/.config/fish/config.fish");
  completion.callback([shell, &app] {
    write_stdout(*shell == "bash"  ? bash_script(app)
                 : *shell == "zsh" ? zsh_script(app)
                                   : fish_script(app));
  });
}

}  // namespace rehearse::inline cli
