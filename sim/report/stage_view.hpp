#pragma once

#include "report/page.hpp"
#include "report/report.hpp"

namespace rehearse {

/// A line for each stage of a pipeline, and what its memory is; nothing where there are no stages.
void add_stages(const Report& report, Page& page);

}  // namespace rehearse
