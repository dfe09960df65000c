#pragma once

#include <string>

#include "base/quantity.hpp"
#include "config/document.hpp"

namespace rehearse::inline cluster {

using Watts = Quantity<struct WattsTag>;

/// "700 W", "12.3 kW".
std::string format(Watts power);
/// `700W`, `1.2kW`; InputError unless it is a power above 0 with its unit.
Watts read_watts(const Value& value);

}  // namespace rehearse::inline cluster
