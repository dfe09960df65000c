#pragma once

#include <filesystem>

#include "measure/compute_calibration.hpp"

namespace rehearse::inline calibrate {

/// Profile to which a calibration adds its points: the file's profile where there is one, with the
/// new origin; else an empty one. InputError where the file holds another measurement: points of
/// unlike origin do not go into one file.
ComputeProfile starting_profile(const ComputePlan& plan, const ProfileOrigin& origin,
                                const std::filesystem::path& file);

}  // namespace rehearse::inline calibrate
