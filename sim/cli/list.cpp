// `rehearse list WHAT`: a name and a line about each; of keys their whole reference.
#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "keys/keys.hpp"
#include "scenario/names.hpp"

namespace rehearse::inline cli {
namespace {

struct ListCommand {
  std::string what;             ///< one of kinds_of_names(), or keys
  std::string prefix;           ///< of keys: how they begin
  std::string format = "text";  ///< of keys: text or markdown
};

void list(const ListCommand& command) {
  if (command.what == "keys")
    return write_stdout(command.format == "markdown" ? keys_markdown() : keys_text(command.prefix));
  if (!command.prefix.empty())
    throw InputError("rehearse: error: only keys have a prefix\nremedy: leave out what follows");
  write_stdout(names_text(command.what));
}

}  // namespace

void add_list(CLI::App& app) {
  const auto command = std::make_shared<ListCommand>();
  CLI::App& list_app =
      *app.add_subcommand("list", "What can be named in a scenario, and every key");
  std::vector<std::string> known = kinds_of_names();
  known.emplace_back("keys");
  add_choice(list_app, "WHAT", command->what,
             "models, clusters, gpus, strategies, optimizers,\n"
             "profiles, scenarios, studies, plans or keys",
             known, "")
      ->required();
  add(list_app, "PREFIX", command->prefix, "Of keys: those that begin so, such as strategy.ddp",
      "");
  add_choice(list_app, "--format", command->format, "Of keys: text or markdown",
             {"text", "markdown"}, "FORMAT");
  list_app.callback([command] { list(*command); });
}

}  // namespace rehearse::inline cli
