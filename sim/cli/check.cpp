// `rehearse check FILE...`: all that is wrong in files, without a simulation.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/quoting.hpp"
#include "cli/commands.hpp"
#include "cli/fix.hpp"
#include "cli/inputs.hpp"
#include "cli/options.hpp"
#include "config/canonical.hpp"
#include "config/files_read.hpp"
#include "config/text_source.hpp"
#include "config/whole_file.hpp"
#include "keys/keys.hpp"
#include "planner/check_file.hpp"

namespace rehearse::inline cli {
namespace {

struct CheckCommand {
  std::vector<std::filesystem::path> files;
  bool quiet = false;
  bool fix = false;     ///< mend misspelt words in the files themselves
  bool format = false;  ///< write the files anew in canonical form
};

/// As often as one mended word may uncover another mistake.
constexpr int kMostRounds = 20;

/// Replaces words that have one remedy alone, and says which; whether anything was replaced.
bool fix(const std::filesystem::path& file, const std::string& message, bool quiet) {
  const std::string text = read_whole_file(file);
  const std::vector<Fix> fixes = fixes_of(message, file.string(), text);
  if (fixes.empty()) return false;
  const std::string mended = fixed(text, fixes);
  write_whole_file(file, mended);
  FilesKept::current()->keep(file, mended);  // what is read again
  if (quiet) return true;
  for (const Fix& one : fixes)
    write_stdout(fmt::format("{}:{}: {} is now {}\n", file.string(), one.line, one.from, one.to));
  return true;
}

CheckedFile checked(const std::filesystem::path& file, const CheckCommand& command) {
  CheckedFile found = check_file(file);
  for (int round = 0; command.fix && found.wrong && round < kMostRounds; ++round) {
    if (!fix(file, found.wrong->what(), command.quiet)) break;
    found = check_file(file);
  }
  return found;
}

/// Writes what a link leads to, with the rights that it has.
void write_in_place(const std::filesystem::path& file, const std::string& text) {
  const std::filesystem::path target = std::filesystem::canonical(file);
  const auto rights = std::filesystem::status(target).permissions();
  if ((rights & std::filesystem::perms::owner_write) == std::filesystem::perms::none)
    throw InputError(file.string() + ": error: the file is read-only\nremedy: chmod u+w " +
                     shell_quoted(file.string()));
  write_whole_file(target, text);
  std::filesystem::permissions(target, rights);
}

/// Writes a file without mistakes in its canonical form, standard input's to standard output.
void format(const std::filesystem::path& file, const CheckedFile& found, bool is_typed,
            bool quiet) {
  const char* const kind = found.kind.starts_with("a plan")    ? "plan/"
                           : found.kind.starts_with("a study") ? "study/"
                                                               : "";
  const std::string text = read_input(file, kMaxTextBytes);
  if (file.extension() == ".json")
    throw InputError(file.string() +
                     ": error: JSON has one form\nremedy: format a file of YAML, NAME.yaml");
  const std::string formatted = canonical(text, file.string(), top_keys(kind));
  if (is_typed)
    write_stdout(formatted);
  else if (formatted != text)
    write_in_place(file, formatted);
  if (!quiet && !is_typed)
    write_stdout(fmt::format("{}: {}, {}\n", file.string(), found.kind,
                             formatted == text ? "in its canonical form" : "formatted"));
}

/// An Error that says what is wrong in any of them: ExitCode::input, or ExitCode::missing where
/// files are missing alone.
void check(const CheckCommand& command) {
  std::string text;
  ExitCode code = ExitCode::success;
  std::vector<std::pair<std::filesystem::path, CheckedFile>> all;
  for (const std::filesystem::path& word : command.files) {
    const std::filesystem::path file = command.fix || (command.format && word != "-")
                                           ? word
                                           : input_file(word, {"", "studies", "plans"});
    all.emplace_back(file, checked(file, command));
  }
  // `--format json` names a file: nothing is written where one is missing.
  const bool writes = std::ranges::none_of(all, [](const auto& one) {
    return one.second.wrong && one.second.wrong->code() == ExitCode::missing;
  });
  for (const auto& [file, found] : all) {
    if (found.wrong) {
      text += (text.empty() ? "" : "\n\n") + std::string(found.wrong->what());
      if (code != ExitCode::input) code = found.wrong->code();
    } else if (command.format) {
      if (writes) format(file, found, file == "-", command.quiet);
    } else if (!command.quiet) {
      write_stdout(fmt::format("{}: {}, no mistakes\n", file.string(), found.kind));
    }
  }
  if (code != ExitCode::success) throw Error(code, text);
}

}  // namespace

void add_check(CLI::App& app) {
  const auto command = std::make_shared<CheckCommand>();
  CLI::App& check_app =
      *app.add_subcommand("check", "Say all that is wrong in files, without a simulation");
  check_app
      .add_option("FILES", command->files,
                  "Scenarios, studies, plans, clusters, profiles; - is standard\n"
                  "input")
      ->required();
  check_app.add_flag("--fix", command->fix,
                     "Mend misspelt names in the files, where there is one remedy");
  check_app.add_flag("--format", command->format,
                     "Write files without mistakes in one form, with their comments");
  check_app.add_flag("--quiet", command->quiet, "Nothing about files without mistakes");
  check_app.footer(
      "Examples:\n"
      "  rehearse check scenario.yaml study.yaml\n"
      "  rehearse check --fix scenario.yaml\n"
      "  rehearse check --format scenario.yaml\n"
      "  generate | rehearse check -");
  check_app.callback([command] { check(*command); });
}

}  // namespace rehearse::inline cli
