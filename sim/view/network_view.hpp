#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "scenario/named_network.hpp"

namespace rehearse::inline view {

/// For people: its units, parameters, FLOPs, and what a sample's forward pass saves in this
/// precision.
std::string to_table(const NamedNetwork& network, Precision precision);
/// `rehearse.model/1`.
std::string to_json(const NamedNetwork& network, Precision precision);
nlohmann::ordered_json network_schema();

}  // namespace rehearse::inline view
