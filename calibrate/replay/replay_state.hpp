#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "replay/curve_builder.hpp"

namespace rehearse::inline calibrate {

/// A gradient that is computed and not yet applied.
struct PendingGradient {
  std::uint64_t row = 0;  ///< of the update log
  double loss = 0;
  std::vector<std::byte> gradient;
  std::vector<std::byte> read;  ///< what it was computed from, for delay compensation; else empty
};

/// A replay between two updates: as much as its workers hold, whatever it has behind it.
struct ReplayState {
  std::uint64_t version = 0;  ///< updates applied
  std::vector<std::byte> parameters, velocity;
  std::vector<PendingGradient> pending;
  CurveBuilder::State curve;
};

/// Writes it so that a reader, or a crash, finds the old state or the whole new one. `replayed`
/// says what is replayed, and how.
void write_state(const std::filesystem::path& file, const std::string& replayed,
                 const ReplayState& state);

/// Nothing where the file is not there. InputError where it is damaged, or is of another replay.
std::optional<ReplayState> read_state(const std::filesystem::path& file,
                                      const std::string& replayed);

}  // namespace rehearse::inline calibrate
