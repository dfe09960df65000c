#pragma once

#include <string>

#include "base/quantity.hpp"

namespace rehearse::inline profile {

/// Quantities as our YAML files write them, for readers through src/config.

/// Six significant digits without an exponent.
std::string decimal(double value);
/// "12.3456ms", in the unit that leaves a number from 1 to 1000 (or us below, s above).
std::string yaml_seconds(Seconds time);
/// "1.23456GFLOPs" and "1.23456GBps", per second.
std::string yaml_flops_per_second(FlopsPerSecond rate);
std::string yaml_bytes_per_second(BytesPerSecond rate);
/// A whole number of the largest binary unit that divides it: "25MiB", "1537B".
std::string yaml_bytes(Bytes size);

}  // namespace rehearse::inline profile
