#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "profile/compute_profile.hpp"

namespace rehearse::inline cost {

/// A profile and the file that it was read from.
struct StoredProfile {
  std::shared_ptr<const ComputeProfile> profile;
  /// File as people know it: from platforms/profiles/compute for those shipped, else as it was
  /// named.
  std::string file;
};

/// Subject that a profile must have to speak for a model: its name, its sample and the precision.
struct ProfileSubject {
  std::string model;
  std::int64_t image = 0, sequence = 0;
  Precision precision = Precision::fp32;

  bool is_of(const ComputeProfile& profile) const;
  std::string text() const;  ///< "small_cnn, 3x32x32 image, fp32"
};

/// Compute profiles of folders; each file is read once.
class ProfileLibrary {
 public:
  /// MissingError if the file cannot be read, InputError if it is no compute profile or one without
  /// points.
  StoredProfile read(const std::filesystem::path& file);

  /// The profile in a folder (not in folders below) that is of the subject, or an empty one. Files
  /// that state another model are not read further. InputError for two of them.
  StoredProfile find(const std::filesystem::path& folder, const ProfileSubject& subject);

  /// The folder's first profile by name: what tells the kind of its device. Empty if it has none.
  StoredProfile first(const std::filesystem::path& folder);

 private:
  std::map<std::filesystem::path, StoredProfile> read_;
};

/// The YAML files of a folder, and the folders in it, by name; none where it is missing.
std::vector<std::filesystem::path> yaml_files(const std::filesystem::path& folder);
std::vector<std::filesystem::path> folders(const std::filesystem::path& folder);

}  // namespace rehearse::inline cost
