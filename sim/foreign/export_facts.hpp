#pragma once

#include <set>
#include <string>
#include <vector>

#include "foreign/facts.hpp"
#include "foreign/format.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline foreign {

/// What a scenario says, in the names that an import of that format gives it. A batch of all GPUs,
/// micro-batches and accumulation stand there each, whichever the scenario has. `notes` gets what
/// the format has otherwise. InputError where it cannot name the network, or has no such strategy.
Facts facts_of(const Scenario& scenario, const Document& document, const Format& format,
               std::vector<std::string>& notes);

/// Groups of shards, and how often they stand side by side.
void fill_shards(Facts& facts);

/// The keys that a scenario itself has, as dotted paths.
std::set<std::string> said_in(const Document& document);

}  // namespace rehearse::inline foreign
