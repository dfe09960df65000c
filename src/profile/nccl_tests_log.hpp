#pragma once

#include <memory>

#include "config/text_source.hpp"
#include "profile/nccl_tests.hpp"

namespace rehearse::inline profile {

/// What nccl-tests printed, with whatever else stands in the log.
CommPoints read_nccl_tests_log(std::shared_ptr<const TextSource> source,
                               const NcclTestsOptions& options);

}  // namespace rehearse::inline profile
