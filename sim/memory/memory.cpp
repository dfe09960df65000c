#include "memory/memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace rehearse {
namespace {

/// Sizes may be fractions of a byte (a third of a tensor); their sums come back to zero within
/// this.
constexpr Bytes kSlack{0.5};

/// The first round may give back what only an iteration before it would have left: that counts as
/// not there.
enum class Round { first, second };

void apply(const MemoryEffect& effect, const std::string& cause, Round round, MemoryUse& use) {
  Bytes& held = use.by_kind[static_cast<std::size_t>(effect.kind)];
  held += effect.change;
  if (round == Round::first) held = std::max(held, Bytes(0));
  if (held < -kSlack) {
    throw InternalError(fmt::format("internal error: {} memory falls below zero at \"{}\"",
                                    to_string(effect.kind), cause));
  }
}

/// One iteration in issue order; `at_start(index, use)` sees each operation holding what it took.
template <class Visitor>
void play(const Program& program, Round round, MemoryUse& use, Visitor&& at_start) {
  for (std::size_t index = 0; index < program.ops.size(); ++index) {
    const Op& op = program.ops[index];
    for (const MemoryEffect& effect : op.memory) {
      if (effect.change > Bytes(0)) apply(effect, op.label, round, use);
    }
    at_start(index, use);
    for (const MemoryEffect& effect : op.memory) {
      if (effect.change < Bytes(0)) apply(effect, op.label, round, use);
    }
  }
}

void check_returns(const Program& program, const MemoryUse& before, const MemoryUse& after) {
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind) {
    const Bytes kept = after.by_kind[kind] - before.by_kind[kind];
    if (kept <= kSlack && kept >= -kSlack) continue;
    throw InternalError(
        fmt::format("internal error: an iteration of \"{}\" keeps {:.0f} B of {} memory",
                    program.name, kept.value(), to_string(static_cast<MemoryKind>(kind))));
  }
}

}  // namespace

Bytes MemoryUse::total() const {
  Bytes sum;
  for (const Bytes held : by_kind) sum += held;
  return sum;
}

MemoryPeak memory_peak(const Program& program) {
  MemoryUse use;
  for (const MemoryEffect& effect : program.resident) apply(effect, "resident", Round::second, use);
  play(program, Round::first, use, [](std::size_t, const MemoryUse&) {});

  const MemoryUse before = use;
  MemoryPeak peak{.use = use, .op = 0, .label = {}};
  play(program, Round::second, use, [&](std::size_t index, const MemoryUse& held) {
    if (held.total() > peak.use.total()) peak = {held, index, program.ops[index].label};
  });
  check_returns(program, before, use);
  return peak;
}

Bytes cuda_context() {
  // Some 300 MB of context since CUDA 11.7 loads kernels lazily (more than 1 GB before that):
  // https://github.com/pytorch/pytorch/issues/107667. The rest is cuBLAS, cuDNN and NCCL handles. A
  // round number for data-center GPUs under CUDA 12; it differs with the driver, the GPU and the
  // libraries.
  return Bytes(500.0 * 1024 * 1024);
}

}  // namespace rehearse
