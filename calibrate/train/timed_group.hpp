#pragma once

#include "comm/process_group.hpp"
#include "train/step_recorder.hpp"

namespace rehearse::inline calibrate {

/// Group that does what a Reducer asks of `group` and notes the times of its all_reduces: the n-th
/// of a step is "bucket n". The Reducer needs no hook for that, which it would treat otherwise: it
/// divides a gradient as it copies it into its bucket, but before a hook only copies it.
ProcessGroup make_timed_group(const ProcessGroup& group, StepRecorder& recorder);

}  // namespace rehearse::inline calibrate
