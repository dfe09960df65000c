#pragma once

#include <nlohmann/json.hpp>

#include "validation/scoreboard.hpp"

namespace rehearse::inline validation {

/// `scoreboard` of a `rehearse.validation/2`.
nlohmann::ordered_json scoreboard_object(const Scoreboard& board);

}  // namespace rehearse::inline validation
