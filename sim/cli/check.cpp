// `rehearse check FILE...`: all that is wrong in files, without a simulation.
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "planner/check_file.hpp"

namespace rehearse::inline cli {
namespace {

/// An Error that says what is wrong in any of them: ExitCode::input, or ExitCode::missing where
/// files are missing alone.
void check(const std::vector<std::filesystem::path>& files, bool quiet) {
  std::string text;
  ExitCode code = ExitCode::success;
  for (const std::filesystem::path& file : files) {
    const CheckedFile checked = check_file(file);
    if (checked.wrong) {
      text += (text.empty() ? "" : "\n\n") + std::string(checked.wrong->what());
      if (code != ExitCode::input) code = checked.wrong->code();
    } else if (!quiet) {
      write_stdout(fmt::format("{}: {}, no mistakes\n", file.string(), checked.kind));
    }
  }
  if (code != ExitCode::success) throw Error(code, text);
}

}  // namespace

void add_check(CLI::App& app) {
  const auto files = std::make_shared<std::vector<std::filesystem::path>>();
  const auto quiet = std::make_shared<bool>(false);
  CLI::App& check_app =
      *app.add_subcommand("check", "Say all that is wrong in files, without a simulation");
  check_app.add_option("FILES", *files, "Scenarios, studies, plans, clusters and profiles (YAML)")
      ->required();
  check_app.add_flag("--quiet", *quiet, "Nothing about files without mistakes");
  check_app.callback([files, quiet] { check(*files, *quiet); });
}

}  // namespace rehearse::inline cli
