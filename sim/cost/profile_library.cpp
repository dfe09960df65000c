#include "cost/profile_library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/error.hpp"
#include "cluster/cluster.hpp"
#include "config/record_set.hpp"
#include "config/whole_file.hpp"

namespace rehearse::inline cost {
namespace {

/// False where a line `model: NAME` names another one. Networks of many units make long files: most
/// of a folder's need not be parsed.
bool may_be_of(const std::filesystem::path& file, const std::string& model) {
  constexpr std::string_view kKey = "model: ";
  std::istringstream text(read_whole_file(file));
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with(kKey)) continue;
    const std::string name = line.substr(kKey.size());
    // A name in quotes, or with a comment behind it, is left to the reader of YAML.
    return name == model || name.find_first_of("\"' #") != std::string::npos;
  }
  return true;
}

std::string known_as(const std::filesystem::path& file) {
  const std::filesystem::path shipped = file.lexically_relative(compute_profiles_folder());
  return shipped.empty() || *shipped.begin() == ".." ? file.string() : shipped.string();
}

}  // namespace

bool ProfileSubject::is_of(const ComputeProfile& profile) const {
  return profile.model == model && profile.image == image && profile.sequence == sequence &&
         profile.precision == precision;
}

std::string ProfileSubject::text() const {
  const std::string sample =
      image > 0 ? fmt::format("3x{0}x{0} image", image) : fmt::format("{} tokens", sequence);
  return fmt::format("{}, {}, {}", model, sample, to_string(precision));
}

StoredProfile ProfileLibrary::read(const std::filesystem::path& file) {
  StoredProfile& stored = read_[file];
  if (stored.profile) return stored;
  const std::shared_ptr<const Document> document = Document::load(file);
  ComputeProfile profile = read_compute_profile(document->root());
  if (profile.points.empty()) {
    document->root().as_map().at_key("points").fail("a profile without points has no costs",
                                                    "let `rehearse calibrate compute` finish it");
  }
  stored = {std::make_shared<const ComputeProfile>(std::move(profile)), known_as(file)};
  return stored;
}

StoredProfile ProfileLibrary::find(const std::filesystem::path& folder,
                                   const ProfileSubject& subject) {
  StoredProfile found;
  for (const std::filesystem::path& file : yaml_files(folder)) {
    if (!may_be_of(file, subject.model)) continue;
    const StoredProfile candidate = read(file);
    if (!subject.is_of(*candidate.profile)) continue;
    if (found.profile) {
      throw InputError(
          fmt::format("{}: error: a second profile of {}; the first is {}\nremedy: keep one of "
                      "them",
                      candidate.file, subject.text(), found.file));
    }
    found = candidate;
  }
  return found;
}

StoredProfile ProfileLibrary::first(const std::filesystem::path& folder) {
  const std::vector<std::filesystem::path> files = yaml_files(folder);
  return files.empty() ? StoredProfile{} : read(files.front());
}

std::vector<std::filesystem::path> yaml_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files = input_files(folder);
  std::erase_if(files, [](const auto& file) { return file.extension() != ".yaml"; });
  return files;
}

std::vector<std::filesystem::path> folders(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing))
    if (entry.is_directory()) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

}  // namespace rehearse::inline cost
