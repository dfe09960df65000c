// `rehearse list WHAT`: a name and a line about each; of keys their whole reference.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/documents.hpp"
#include "cli/options.hpp"
#include "keys/keys.hpp"
#include "scenario/names.hpp"

namespace rehearse::inline cli {
namespace {

struct ListCommand {
  std::string what;             ///< one of kinds_of_names(), keys or schema
  std::string prefix;           ///< of keys: how they begin; of schema: the kind of file
  std::string format = "text";  ///< of keys: text or markdown
};

void list(const ListCommand& command) {
  if (command.what == "keys")
    return write_stdout(command.format == "markdown" ? keys_markdown() : keys_text(command.prefix));
  if (command.what == "schema")
    return write_stdout(document_schema(command.prefix.empty() ? "scenario" : command.prefix));
  if (!command.prefix.empty())
    throw InputError(
        "rehearse: error: only keys and schema take a second word\nremedy: leave it out");
  write_stdout(names_text(command.what));
}

}  // namespace

void add_list(CLI::App& app) {
  const auto command = std::make_shared<ListCommand>();
  CLI::App& list_app =
      *app.add_subcommand("list", "What can be named in a scenario, and every key");
  std::vector<std::string> known = kinds_of_names();
  known.insert(known.end(), {"keys", "schema"});
  add_choice(list_app, "WHAT", command->what,
             "models, families, clusters, gpus, architectures,\n"
             "strategies, optimizers, engines, profiles, scenarios,\n"
             "studies, plans, keys, or the JSON Schema of a kind of file\n"
             "or document",
             known, "")
      ->required();
  add(list_app, "PREFIX", command->prefix,
      "Of keys: those that begin so, such as strategy.ddp; of\n"
      "schema: scenario, study, plan, cluster, cases,\n"
      "compute_profile, comm_profile, curve, report, explain, compare,\n"
      "kernels, collective, decode, rollout, rollout_plan, model\nor plan_result",
      "");
  add_choice(list_app, "--format", command->format, "Of keys: text or markdown",
             {"text", "markdown"}, "FORMAT");
  list_app.callback([command] { list(*command); });
}

}  // namespace rehearse::inline cli
