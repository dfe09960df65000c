#pragma once

#include "schedule/schedule.hpp"

namespace rehearse::inline schedule {

/// Leaves out the host's lane of programs whose GPU never waits for it, where no batch is loaded on
/// it. Times stay the same: a host that is ahead changes none. The schedule says how much a GPU
/// waits for it, or would for a slower one (Schedule::host_share).
///
/// A GPU does not wait if a step takes no longer with the lane than without it while all else but
/// computation takes no time: what does take time makes the host's lead larger.
void leave_out_hosts_ahead(Schedule& schedule);

}  // namespace rehearse::inline schedule
