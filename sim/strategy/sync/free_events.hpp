#pragma once

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "schedule/schedule.hpp"

namespace rehearse::inline strategy {

/// torch.distributed.fsdp's _FreeEventQueue: every freed unit leaves an event, and once two of them
/// wait, the next all_gather waits for the older.
class FreeEvents {
 public:
  struct Freed {
    OpId op;
    std::vector<TensorId> tensors;  ///< that the host knows to be unused once `op` is over
  };
  void freed_after(OpId op, std::vector<TensorId> tensors) {
    events_.push_back({op, std::move(tensors)});
  }
  std::optional<Freed> take_if_full() { return events_.size() < 2 ? std::nullopt : take(); }
  std::optional<Freed> take() {
    if (events_.empty()) return std::nullopt;
    Freed oldest = std::move(events_.front());
    events_.pop_front();
    return oldest;
  }

 private:
  std::deque<Freed> events_;
};

}  // namespace rehearse::inline strategy
