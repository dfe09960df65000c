#pragma once

#include <set>

#include "foreign/facts.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline foreign {

/// What a scenario says, in the names that an import of that format gives it. A batch of all GPUs,
/// micro-batches and accumulation stand there each, whichever the scenario has.
Facts facts_of(const Scenario& scenario, const Document& document, const std::string& format);

/// The keys that a scenario itself has, as dotted paths.
std::set<std::string> said_in(const Document& document);

}  // namespace rehearse::inline foreign
