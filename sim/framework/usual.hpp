#pragma once

#include <string>

#include "config/document.hpp"

namespace rehearse::inline framework {

/// Where nobody says whose code trains: whose words the strategy uses.
std::string usual_framework(const Value& strategy);
/// Whether pipeline_parallel is above 1.
bool is_pipeline(const Value& strategy);
/// Why it is that one, and which key takes another.
std::string why_usual(const std::string& name);

}  // namespace rehearse::inline framework
