#pragma once

#include <string>
#include <vector>

#include "foreign/facts.hpp"
#include "foreign/format.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline foreign {

/// Whether a format's files name a network of the hub and how it is trained: axolotl, TRL,
/// torchtune.
bool is_recipe(const std::string& format);

/// Puts a scenario's facts into the words of a recipe. Returns what the recipe has otherwise.
/// InputError where the recipe's framework cannot name the network, or has no such strategy.
std::vector<std::string> fill_recipe(const Scenario& scenario, const Format& format, Facts& facts);

}  // namespace rehearse::inline foreign
