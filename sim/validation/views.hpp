#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "validation/summary.hpp"

namespace rehearse::inline validation {

/// How far predictions are off, in one to three sentences.
std::string answer(const Validation& validation);
/// For people: at most 120 columns; ANSI colours if `color`, red for what its interval does not
/// hold.
std::string to_table(const Validation& validation, bool color);
/// For people: one page of all sets, by GPU, framework and strategy.
std::string to_scoreboard(const Validation& validation, bool color);
/// The same for a README.
std::string to_scoreboard_markdown(const Validation& validation);
/// Tables for a README, the summary last.
std::string to_markdown(const Validation& validation);
/// A header and a row for each number, in the metrics' own units.
std::string to_csv(const Validation& validation);
/// `rehearse.validation/2`, and its JSON Schema.
std::string to_json(const Validation& validation);
nlohmann::ordered_json validation_schema();

}  // namespace rehearse::inline validation
