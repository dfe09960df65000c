#pragma once

#include <string>
#include <vector>

#include "report/page.hpp"
#include "report/report.hpp"

namespace rehearse::inline report {

/// A line for each stage of a pipeline, and what its memory is; nothing where there are no stages.
void add_stages(const Report& report, Page& page);
/// The same without memory.
void add_stages(const std::vector<StageReport>& stages, Page& page);

}  // namespace rehearse::inline report
