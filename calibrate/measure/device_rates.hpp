#pragma once

#include "measure/device.hpp"
#include "profile/compute_profile.hpp"

namespace rehearse::inline calibrate {

/// Measures what the device reaches at best: square matrix products in each of its formats (several
/// sizes), and a copy larger than caches. Takes below three seconds, on a CPU with the host threads
/// that are set.
DeviceRates measure_rates(MeasuredDevice& device);

}  // namespace rehearse::inline calibrate
