#pragma once

#include <map>
#include <string>

namespace rehearse::inline prediction {

/// What the mechanisms of an interval are of; platforms/intervals.yaml has a list for each. All
/// that is taken of a GPU's memory has the mechanisms of what is allocated, too.
enum class IntervalOf { times, allocated, used };

/// By mechanism, as in the file.
const std::map<std::string, double>& interval_errors(IntervalOf what);

/// Half-width of the 90 % interval of ln(the mechanism's own time or bytes), as measured rows told
/// it in platforms/intervals.yaml. Throws InternalError for a mechanism that the file lacks.
double interval_error(IntervalOf what, const std::string& mechanism);

}  // namespace rehearse::inline prediction
