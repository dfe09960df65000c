#pragma once

#include <string>

#include "profile/nccl_tests.hpp"

namespace rehearse::inline profile {

/// The JSON report of nccl-tests (versions 1 and 2 of its schema), whose whole text is `text`.
/// Errors of syntax name line and column; others the place in the report
/// (`results[3].out_of_place.time`).
CommPoints read_nccl_tests_json(const std::string& text, const std::string& file,
                                const NcclTestsOptions& options);

}  // namespace rehearse::inline profile
