// Shipped files with one key deleted, misspelt or set to something else: each ends with a code of
// the README and a message, and never by a signal or a bug of our own.
//
//   mutations FOLDER [MOST [SECONDS]]   so many mutants of each file (all), each for so long (5)
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/child_pool.hpp"
#include "config/document.hpp"
#include "config/files_read.hpp"
#include "config/key_places.hpp"
#include "keys/keys.hpp"
#include "mutants.hpp"
#include "planner/check_file.hpp"
#include "predict/memory_advice.hpp"
#include "validation/cases.hpp"
#include "view/views.hpp"

namespace rehearse {
namespace {

using Files = std::vector<std::filesystem::path>;

Files files_in(const std::filesystem::path& folder) {
  Files files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// Of each file at most so many, evenly apart, and of the next file others.
std::vector<Mutant> some_mutants(const Files& files, std::size_t most) {
  std::vector<Mutant> some;
  for (std::size_t f = 0; f < files.size(); ++f) {
    const std::vector<Mutant> all = mutants_of(files[f]);
    const std::size_t every = std::max<std::size_t>(1, (all.size() + most - 1) / most);
    for (std::size_t i = 17 * f % every; i < all.size(); i += every) some.push_back(all[i]);
  }
  return some;
}

std::string predicted(const std::filesystem::path& file,
                      const std::vector<std::string>& overrides) {
  const Scenario scenario = read_scenario(file, overrides);
  const Prediction prediction =
      predict_with_advice(scenario, {.file = file, .overrides = overrides});
  return to_json(prediction.report) + to_terminal(prediction.report, 100, false);
}

/// What `rehearse validate` makes of the case in which something was changed.
std::string validated(const Mutant& mutant) {
  const CaseFile file = read_case_file(mutant.file);
  if (file.cases.empty()) return "no case";
  std::size_t number = 0;
  std::sscanf(mutant.change.c_str(), "cases.%zu", &number);
  const ValidationCase& one = file.cases[std::min(number, file.cases.size() - 1)];
  return predicted(one.scenario, one.overrides);
}

/// Keeps what this process writes to stderr from now on: advice that a bug of ours takes away says
/// so there alone.
class KeptStderr {
 public:
  KeptStderr() : file_(std::tmpfile()) { dup2(fileno(file_), STDERR_FILENO); }

  std::string text() const {
    std::rewind(file_);
    std::string all(1 << 16, '\0');
    all.resize(std::fread(all.data(), 1, all.size(), file_));
    return all;
  }

 private:
  std::FILE* file_;  // until the process ends
};

/// The answer of `rehearse check` and, for a scenario, of `rehearse run`.
std::string answer_to(FilesKept& kept, const Mutant& mutant) {
  kept.keep(mutant.file, text_of(mutant));
  if (Document::load(mutant.file)->root().as_map().has("cases")) return validated(mutant);
  const CheckedFile checked = check_file(mutant.file);
  if (checked.wrong) throw Error(*checked.wrong);
  if (checked.kind != "a scenario") return checked.kind;
  return predicted(mutant.file, {});
}

std::string answer(FilesKept& kept, const Mutant& mutant) {
  const KeptStderr told;
  std::string text = answer_to(kept, mutant);
  if (const std::string said = told.text(); said.find("internal error") != std::string::npos)
    throw Error(ExitCode::internal, said);
  return text;
}

/// Empty where the end is one of those that a user may see.
std::string fault_of(const ChildEnd& end) {
  if (end.code == ExitCode::internal) return end.text;
  if (end.text.empty()) return "no message";
  if (end.text.find("no further mistakes could be looked for") != std::string::npos)
    return end.text.substr(end.text.rfind("note:"));
  // A report may say so of a GPU.
  if (end.code != ExitCode::success && end.text.find("out of memory") != std::string::npos)
    return end.text;
  return "";
}

struct Count {
  std::map<ExitCode, std::size_t> ends;
  std::size_t faults = 0;
};

Count ends_of(const std::vector<Mutant>& mutants, double seconds) {
  FilesKept kept;
  Count count;
  const ChildLimits limits{
      .jobs = jobs_or_cores(), .timeout = Seconds(seconds), .memory = Bytes(4e9)};
  run_children(
      mutants.size(), limits, [&](std::size_t i) { return answer(kept, mutants[i]); },
      [&](std::size_t i, const ChildEnd& end) {
        ++count.ends[end.code];
        const std::string fault = fault_of(end);
        if (fault.empty()) return;
        ++count.faults;
        fmt::print("FAILED {}: {}: {}\n", mutants[i].file.string(), mutants[i].change, fault);
        std::fflush(stdout);
      });
  return count;
}

}  // namespace

int check_mutants(const std::filesystem::path& folder, std::size_t most, double seconds) {
  const std::vector<Mutant> some = some_mutants(files_in(folder), most);
  const Count count = ends_of(some, seconds);
  for (const auto& [code, ends] : count.ends)
    fmt::print("{} ended with {}\n", ends, static_cast<int>(code));
  fmt::print("{} mutants, {} failures\n", some.size(), count.faults);
  return count.faults == 0 ? 0 : 1;
}

}  // namespace rehearse

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) return 2;
  rehearse::set_key_places(rehearse::scenario_places);
  return rehearse::check_mutants(words[0], words.size() > 1 ? std::stoull(words[1]) : 1'000'000,
                                 words.size() > 2 ? std::stod(words[2]) : 5);
}
