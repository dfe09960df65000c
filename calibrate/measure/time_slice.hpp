#pragma once

#include "base/quantity.hpp"

namespace rehearse::inline calibrate {

/// How long the system's scheduler lets a thread compute while another one wants its core: the
/// median pause of one of two threads that compute on the same core, measured in half a second.
/// Nothing (0) where threads cannot be pinned or none was paused.
Seconds measure_time_slice();

}  // namespace rehearse::inline calibrate
