#pragma once

#include "predict/predict.hpp"

namespace rehearse::inline prediction {

/// The report of predict(), simulated in a child process, so that a program may ask as often as it
/// likes and from several threads. Rates and times are what the JSON report says of them. Throws
/// what predict() throws; InternalError if the child dies. `options.progress` is not called.
Report report_of(const Scenario& scenario, const Options& options = {});

}  // namespace rehearse::inline prediction
