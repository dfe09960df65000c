#pragma once

#include "base/quantity.hpp"
#include "config/document.hpp"

namespace rehearse::inline cluster {

/// Rings of Gloo, whose every hop passes the host's TCP, also between GPUs of one node
/// (torch.distributed's backend gloo; gloo/allreduce.cc). ProcessGroupGloo runs two at a time, of
/// which one waits for its messages while the other is worked on. All are fitted to ResNet-50 on 16
/// V100s (Li et al., VLDB 2020, figure 7), once more after those on 32 (figure 8) were seen.
struct GlooOptions {
  BytesPerSecond rate{1.8e9};    ///< busbw of two all_reduces at a time, of one process
  BytesPerSecond alone{1.05e9};  ///< of one
  Seconds per_step{34e-6};       ///< of a ring's 2 (n - 1)

  static constexpr int kAtATime = 2;  ///< ProcessGroupGloo's threads
};

/// A map {rate, per_step}. InputError where it is none.
GlooOptions read_gloo_options(const Value& value);

}  // namespace rehearse::inline cluster
