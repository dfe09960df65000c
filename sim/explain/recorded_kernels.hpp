#pragma once

#include <optional>

#include "explain/kernel_table.hpp"

namespace rehearse::inline explanation {

/// Kernels that `rehearse record` measured, from `kernels.csv` beside the profile that the
/// scenario's costs come from: one micro-batch's forward and backward, times as they were recorded,
/// bytes and units unknown. Nothing where no record is there; InputError where the scenario's batch
/// is another than the recorded one.
std::optional<KernelTable> recorded_kernel_table(const Scenario& scenario);

}  // namespace rehearse::inline explanation
