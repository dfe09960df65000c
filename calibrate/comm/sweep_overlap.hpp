#pragma once

#include <vector>

#include "comm/process_group.hpp"
#include "comm/sweep_result.hpp"

namespace rehearse::inline calibrate {

/// How much a collective and matrix products on the same processor slow each other, in alternating
/// repetitions: each alone, compute while collectives run from its start past its end, and
/// collectives while compute runs so. Gloo and CPUs only: a GPU's streams need a GPU.
SweepOverlap measure_overlap(const ProcessGroup& group, CollectiveKind kind, Bytes size,
                             int repetitions);

}  // namespace rehearse::inline calibrate
