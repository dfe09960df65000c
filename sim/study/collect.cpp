#include "study/collect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace rehearse::inline study {
namespace {

constexpr const char* kShardPrefix = "shard_";
constexpr const char* kExtension = ".sqlite";

[[noreturn]] void fail_as_other(const std::filesystem::path& file, const char* what,
                                const std::string& here, const std::string& there) {
  throw InputError(fmt::format("{}: error: its {} is not that of the others: \"{}\", not \"{}\"",
                               file.string(), what, here, there));
}

/// What is not comparable cannot be merged.
void check_same(const ResultStore& target, const ResultStore& source) {
  const std::filesystem::path& file = source.file();
  const auto here = source.identity();
  if (!here) {
    throw InputError(
        fmt::format("{}: error: no study in this file\nremedy: its sweep has to begin "
                    "before it can be collected",
                    file.string()));
  }
  const auto there = target.identity();
  if (here->program != there->program) {
    fail_as_other(file, "program", here->program, there->program);
  }
  if (here->study != there->study) fail_as_other(file, "study", here->study, there->study);
  if (*here != *there || source.points() != target.points()) {
    throw InputError(
        fmt::format("{}: error: its points are not those of the others\nremedy: the study "
                    "or a file that it reads has changed in between; sweep again",
                    file.string()));
  }
}

/// A final outcome says more than a killed process.
bool is_better(const Outcome& outcome, const Outcome& than) {
  return outcome.is_final() && !than.is_final();
}

void add(ResultStore& target, const ResultStore& source) {
  std::set<std::string> keys;
  for (const StudyPoint& point : target.points()) keys.insert(point.key);
  source.for_each([&](const std::string& key, const Outcome& outcome) {
    if (!keys.contains(key)) return;
    const auto known = target.find(key);
    if (known && known->code == ExitCode::success && outcome.code == ExitCode::success &&
        known->text != outcome.text) {
      throw InternalError(
          fmt::format("{}: internal error: another result than elsewhere for the same "
                      "scenario ({})",
                      source.file().string(), key));
    }
    if (!known || is_better(outcome, *known)) target.store(key, outcome);
  });
}

}  // namespace

std::filesystem::path results_file(const std::filesystem::path& folder) {
  return folder / (std::string("results") + kExtension);
}

std::filesystem::path shard_file(const std::filesystem::path& folder, std::size_t index,
                                 std::size_t count) {
  return folder / fmt::format("{}{}_of_{}{}", kShardPrefix, index, count, kExtension);
}

std::vector<std::filesystem::path> shard_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::filesystem::path& file = entry.path();
    if (file.extension() == kExtension && file.filename().string().starts_with(kShardPrefix)) {
      found.push_back(file);
    }
  }
  std::ranges::sort(found);
  return found;
}

std::vector<std::filesystem::path> result_files(const std::vector<std::filesystem::path>& given) {
  std::vector<std::filesystem::path> files;
  for (const std::filesystem::path& path : given) {
    std::vector<std::filesystem::path> found = {path};
    if (std::filesystem::is_directory(path)) found = shard_files(path);
    if (found.empty()) found = {results_file(path)};
    for (const std::filesystem::path& file : found) {
      if (std::filesystem::is_regular_file(file)) continue;
      throw MissingError(
          fmt::format("{}: error: no results here\nremedy: name the --output of a sweep, "
                      "or a file of its results",
                      path.string()));
    }
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

void collect(ResultStore& target, const std::vector<std::filesystem::path>& files) {
  for (const std::filesystem::path& file : files) {
    const ResultStore source(file);
    if (!target.identity() && source.identity()) {
      target.describe(*source.identity(), source.points());
    }
    check_same(target, source);
    add(target, source);
  }
}

}  // namespace rehearse::inline study
