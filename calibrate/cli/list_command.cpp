#include <fmt/format.h>

#include "cli/commands.hpp"
#include "model/model.hpp"
#include "models/networks.hpp"

namespace rehearse::inline calibrate {
namespace {

void list_models() {
  for (const std::string& name : chain_names()) {
    fmt::print("{:<18} {}\n", name, describe_architecture(name));
  }
}

}  // namespace

void add_list_command(CLI::App& app, const Invocation&) {
  CLI::App* list = app.add_subcommand("list", "What can be measured");
  list->require_subcommand(1);
  list->add_subcommand("models", "Networks by name")->callback(list_models);
}

}  // namespace rehearse::inline calibrate
