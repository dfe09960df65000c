#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/document.hpp"

namespace rehearse::inline cluster {

/// How NCCL (RCCL on AMD's GPUs) moves a collective. `direct` are its send and recv calls: every
/// rank talks to every other, or two ranks to each other.
enum class NcclAlgorithm { ring, tree, nvls, nvls_tree, collnet, pat, direct };
/// LL sends 4 bytes of data with 4 of flags, LL128 120 with 8; Simple sends chunks and then says
/// so.
enum class NcclProtocol { ll, ll128, simple };

/// Names as NCCL_ALGO and NCCL_PROTO spell them.
std::string to_string(NcclAlgorithm algorithm);
std::string to_string(NcclProtocol protocol);

/// A version of NCCL: 2.23.4 is {2, 23}.
struct NcclVersion {
  int major = 2, minor = 0;
  auto operator<=>(const NcclVersion&) const = default;
};

/// NCCL settings that a user or a cluster states.
struct NcclOptions {
  std::optional<NcclVersion> version{};     ///< nothing: a recent one
  std::vector<NcclAlgorithm> algorithms{};  ///< NCCL_ALGO; empty: all
  std::vector<NcclProtocol> protocols{};    ///< NCCL_PROTO; empty: all
  bool sharp = false;                       ///< switches between nodes add up (CollNet)

  bool allows(NcclAlgorithm algorithm) const;
  bool allows(NcclProtocol protocol) const;
  /// Nobody says the version, or it is at least this one.
  bool at_least(NcclVersion least) const { return !version || *version >= least; }
};

/// A map {version, algorithms, protocols, sharp}. InputError where it is none.
NcclOptions read_nccl_options(const Value& value);

}  // namespace rehearse::inline cluster
