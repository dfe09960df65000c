#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "train/step_report.hpp"

namespace rehearse::inline calibrate {

/// Parts of a step report that processes tell each other as well. All times are seconds.
std::vector<double> numbers(const std::vector<Seconds>& times);
std::vector<std::int64_t> numbers(const std::vector<Bytes>& sizes);
nlohmann::json to_object(const StepMemory& memory);
nlohmann::json to_object(const StepDetail& detail);

}  // namespace rehearse::inline calibrate
