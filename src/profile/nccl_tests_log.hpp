#pragma once

#include <memory>

#include "config/text_source.hpp"
#include "profile/nccl_tests.hpp"

namespace rehearse::inline profile {

/// Points that nccl-tests printed, read from a log with whatever else stands in it.
CommPoints read_nccl_tests_log(std::shared_ptr<const TextSource> source,
                               const NcclTestsOptions& options);

}  // namespace rehearse::inline profile
