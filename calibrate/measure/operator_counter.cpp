#include "measure/operator_counter.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.hpp"
#include "measure/operator_costs.hpp"

namespace rehearse::inline calibrate {
namespace {

// LibTorch calls back plain functions, so what they add to is global.
std::mutex totals_mutex;
OperatorTotals totals;
bool counting = false;

/// An operator that runs on this thread, and what those that it called have done.
struct RunningCall : at::ObserverContext {
  OperatorCall call;
  OperatorTotals inner;
  RunningCall* caller = nullptr;
};
thread_local RunningCall* innermost = nullptr;

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  const auto name = function.operator_name();
  if (!name) return nullptr;  // a label, not an operator
  auto running = std::make_unique<RunningCall>();
  running->call.name = name->name;
  running->call.inputs.assign(function.inputs().begin(), function.inputs().end());
  running->caller = std::exchange(innermost, running.get());
  return running;
}

void add(OperatorTotals& sum, const OperatorTotals& more) {
  sum.flops += more.flops;
  sum.moved += more.moved;
}

void leave(const at::RecordFunction& function, at::ObserverContext* context) {
  auto* running = static_cast<RunningCall*>(context);
  if (running == nullptr) return;
  innermost = running->caller;
  running->call.outputs = function.outputs();
  const Flops product = product_flops(running->call);
  const OperatorTotals own{product > Flops(0) ? product : running->inner.flops,
                           std::max(moved_bytes(running->call), running->inner.moved)};
  if (innermost != nullptr) return add(innermost->inner, own);
  const std::lock_guard lock(totals_mutex);
  add(totals, own);
}

}  // namespace

OperatorCounter::OperatorCounter() {
  check(!std::exchange(counting, true), "one counter of operators at a time");
  totals = {};
  handle_ = at::addGlobalCallback(at::RecordFunctionCallback(enter, leave)
                                      .needsInputs(true)
                                      .needsOutputs(true)
                                      .scopes({at::RecordScope::FUNCTION}));
}

OperatorCounter::~OperatorCounter() {
  at::removeCallback(handle_);
  counting = false;
}

OperatorTotals OperatorCounter::take() {
  const std::lock_guard lock(totals_mutex);
  return std::exchange(totals, {});
}

}  // namespace rehearse::inline calibrate
