#include "measure/allocation_recording.hpp"

#include <ATen/record_function.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "measure/counting_allocator.hpp"

namespace rehearse::inline calibrate {
namespace {

// LibTorch calls back plain functions, so what they write is global.
std::mutex events_mutex;
std::vector<AllocationEvent> events;
std::unordered_map<const void*, std::size_t> living;
std::size_t taken = 0;
bool recording = false;
thread_local std::string running;

/// Shortens `running` again when the operator ends.
struct RunningOperator : at::ObserverContext {
  explicit RunningOperator(std::size_t before) : length_before(before) {}
  std::size_t length_before;
};

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  auto operation = std::make_unique<RunningOperator>(running.size());
  if (!running.empty()) running += '/';
  running += function.name();
  return operation;
}

void leave(const at::RecordFunction&, at::ObserverContext* context) {
  running.resize(static_cast<RunningOperator*>(context)->length_before);
}

/// The block's number; addresses are used again.
std::size_t number(const CountedBlock& block) {
  if (block.takes) return living[block.address] = taken++;
  const auto found = living.find(block.address);
  if (found == living.end()) return kUnknownBlock;
  const std::size_t known = found->second;
  living.erase(found);
  return known;
}

void keep(const CountedBlock& block) {
  const std::lock_guard lock(events_mutex);
  events.push_back({number(block), block.size, block.takes, running});
}

}  // namespace

AllocationRecording::AllocationRecording() {
  check(!std::exchange(recording, true), "one recording of allocations at a time");
  living.clear();
  taken = 0;
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(enter, leave)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  listen_to_blocks(keep);
}

AllocationRecording::~AllocationRecording() {
  listen_to_blocks({});
  at::removeCallback(handle_);
  events.clear();
  recording = false;
}

std::vector<AllocationEvent> AllocationRecording::take() {
  const std::lock_guard lock(events_mutex);
  return std::exchange(events, {});
}

}  // namespace rehearse::inline calibrate
