#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace rehearse::inline base {

/// The first day that a date may be: "2026-07-20" is a day, "2026-07" a month, "2026" a year.
/// Nothing: it is none of the calendar.
std::optional<std::chrono::sys_days> first_day(const std::string& date);

/// The day of today, in UTC. The environment's SOURCE_DATE_EPOCH (seconds since 1970) takes its
/// place, so that two runs write the same bytes; InputError where that is no number of seconds.
std::chrono::sys_days today();

}  // namespace rehearse::inline base
