#pragma once

#include "config/json/json_record.hpp"
#include "report/paced_updates.hpp"
#include "report/report.hpp"

/// Records of which other modules make JSON, or read it: report_fields.hpp lists their fields.
namespace rehearse::inline config {

template <>
struct JsonForm<Headline> : ListedElsewhere<Headline> {};
template <>
struct JsonForm<FittingChange> : ListedElsewhere<FittingChange> {};
template <>
struct JsonForm<PacedUpdates> : ListedElsewhere<PacedUpdates> {};
template <>
struct JsonForm<StageReport> : ListedElsewhere<StageReport> {};
template <>
struct JsonForm<CollectiveReport> : ListedElsewhere<CollectiveReport> {};
template <>
struct JsonForm<ComputeReport> : ListedElsewhere<ComputeReport> {};

}  // namespace rehearse::inline config
