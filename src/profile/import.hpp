#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "profile/comm_points.hpp"
#include "profile/comm_profile.hpp"
#include "profile/nccl_tests.hpp"

namespace rehearse::inline profile {

/// Identity that a profile states.
struct ProfileIdentity {
  std::string name;
  std::string hardware;
  std::string source;
  std::optional<CommLinks> links = {};  ///< what it was measured on; nothing: not known
};

struct ImportOptions {
  std::string name = {};      ///< of the profile; else the first file's name without its ending
  std::string hardware = {};  ///< else what the first file says
  std::string source = {};    ///< else what the first file says, else its name
  std::optional<CommLinks> links = {};  ///< of the machine; nothing: not known
  std::string command = {};             ///< stands in the profile's head: how to make it again
  NcclTestsOptions nccl_tests = {};     ///< what the logs leave out
  std::function<CommPoints(CommPoints)> completed = {};  ///< of too few sizes; empty: refused
};

/// Fits one curve per collective, ranks and nodes; points of several files join. InputError if a
/// curve cannot be fitted (too few sizes, times that do not grow).
CommProfile fit_profile(const ProfileIdentity& identity, const std::vector<CommPoints>& measured);

struct ImportedProfile {
  std::string text;                   ///< the profile file: YAML with a head of comments
  std::vector<std::string> notes;     ///< what was concluded: "FILE: taken as all_to_all: ..."
  std::vector<std::string> left_out;  ///< damaged lines: "FILE: line 22: expected 13 columns ..."
};

/// A profile fitted to outputs of nccl-tests: `rehearse
/// import nccl-tests`.
ImportedProfile import_nccl_tests(const std::vector<std::filesystem::path>& files,
                                  const ImportOptions& options = {});

/// The same from tables of points: `rehearse import points`.
ImportedProfile import_points(const std::vector<std::filesystem::path>& files,
                              const ImportOptions& options = {});

}  // namespace rehearse::inline profile
