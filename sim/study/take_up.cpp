#include "study/take_up.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "config/whole_file.hpp"

namespace rehearse::inline study {

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (std::filesystem::is_directory(folder)) return;
  throw MissingError(
      fmt::format("{}: error: cannot be made: {}\nremedy: --output FOLDER names "
                  "another place",
                  folder.string(), error ? error.message() : "it is a file"));
}

LockedStore::LockedStore(const std::filesystem::path& file, const std::filesystem::path& beside,
                         bool fresh) {
  make_folder(file.parent_path());
  lock_.emplace(file.string() + ".lock");
  if (!beside.empty()) remove_temporaries(beside);
  if (fresh) ResultStore::remove(file);
  store_.emplace(file);
}

void take_up(ResultStore& store, const StudyIdentity& identity,
             const std::vector<StudyPoint>& points, bool quiet) {
  const auto before = store.identity();
  if (before && before->program != identity.program) {
    throw InputError(
        fmt::format("{}: error: results of another program\n  there: {}\n  here:  {}\nremedy: "
                    "--fresh begins anew; "
                    "--output FOLDER keeps both",
                    store.file().string(), before->program, identity.program));
  }
  if (before && before->study != identity.study) {
    throw InputError(
        fmt::format("{}: error: results of another study, \"{}\"\n"
                    "remedy: give another --output; --fresh replaces them",
                    store.file().string(), before->study));
  }
  const bool has_points = before && !store.points().empty();
  if (before == identity && store.points() == points) return;
  store.describe(identity, points);
  if (has_points && !quiet) tell("The study has changed; what is there of its points is kept.\n");
}

}  // namespace rehearse::inline study
