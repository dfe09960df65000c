#include "memory/replay.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "base/error.hpp"
#include "base/hash.hpp"

namespace rehearse::inline memory {
namespace {

CachingAllocator::Device device_of(const MemoryDevice& device) {
  if (device.capacity == Bytes(0)) return {};
  return {.memory = static_cast<std::int64_t>(device.capacity.value()),
          .outside = static_cast<std::int64_t>(device.outside.value())};
}

/// Fewer repeats are played.
constexpr std::uint32_t kLeastRepeats = 4;

/// What a rank's tensors may be together, so that sums of them are counted in 64 bits.
constexpr Bytes kMostBytes(0x1p61);

void check_countable(const Program& program) {
  Bytes sum;
  for (const Tensor& tensor : program.tensors) sum += tensor.size;
  if (sum <= kMostBytes) return;
  throw InputError(
      fmt::format("error: the tensors of a rank ({}) are {} together; at most {} can be counted\n"
                  "remedy: check the sizes and the batch of the model",
                  program.name, format(sum), format(kMostBytes)));
}

/// The longest stretch of operations whose events come again.
Stretch repeated_in(const Program& program) {
  std::vector<std::uint64_t> kinds;
  kinds.reserve(program.ops.size());
  for (const Op& op : program.ops) {
    Hash hash;
    for (const TensorEvent& event : op.memory) {
      hash.add(std::uint64_t{event.tensor.index()});
      hash.add(static_cast<std::uint64_t>(event.action));
      hash.add(std::uint64_t{event.once});
    }
    kinds.push_back(hash.value());
  }
  return longest_stretch(kinds, kLeastRepeats).value_or(Stretch{});
}

/// Shares of a tensor may be fractions of a byte.
std::int64_t whole_bytes(Bytes size) { return static_cast<std::int64_t>(std::ceil(size.value())); }

}  // namespace

Bytes MemoryUse::total() const {
  Bytes sum;
  for (const Bytes held : by_kind) sum += held;
  return sum;
}

MemoryReplay::MemoryReplay(const Program& program, const MemoryDevice& device,
                           const Observer& observe, std::vector<AllocatorEvent>* history)
    : program_(program),
      device_(device),
      allocator_(device.allocator, device_of(device)),
      repeated_(repeated_in(program)),
      places_(program.tensors.size()) {
  check_countable(program);
  allocator_.record(history);
  for (const TensorEvent& event : program_.setup) {
    if (!play(event, kSetup)) return;
    if (observe) observe(kSetup, event);
  }
}

void MemoryReplay::iterate(const Observer& observe) { iterate(observe, false); }

void MemoryReplay::iterate_steadily(const Observer& observe) { iterate(observe, true); }

void MemoryReplay::iterate(const Observer& observe, bool steadily) {
  const std::vector<bool> before = which_held();
  std::map<std::uint64_t, std::size_t> seen;  // by state: where it was
  for (std::size_t op = 0; op < program_.ops.size(); ++op) {
    if (steadily && repeated_.has(static_cast<std::uint32_t>(op)) &&
        (op - repeated_.begin) % repeated_.period == 0) {
      const auto [at, is_new] = seen.try_emplace(state(), op);
      if (!is_new) {
        const std::size_t again = op - at->second;
        op += (repeated_.end() - op) / again * again;
        steadily = false;
        if (op == program_.ops.size()) break;
      }
    }
    for (const TensorEvent& event : program_.ops[op].memory) {
      if (out_of_memory_) return;
      if (event.once && iterations_ > 0) continue;
      if (!play(event, op)) return;
      if (observe) observe(op, event);
    }
  }
  if (iterations_++ > 0) check_returns(before);
}

/// A hash of what is held and of what the allocator does from here on.
std::uint64_t MemoryReplay::state() const {
  Hash hash;
  for (std::size_t id = 0; id < places_.size(); ++id) {
    const Place& place = places_[id];
    if (place.state == State::absent) continue;
    hash.add(std::uint64_t{id});
    hash.add(static_cast<std::uint64_t>(place.state));
    if (device_.caching) hash.add(static_cast<std::uint64_t>(allocator_.address(place.block)));
  }
  hash.add(allocator_.state());
  return hash.value();
}

/// Made where it is asked for: there are many events.
std::string MemoryReplay::label_of(std::size_t op) const {
  return op == kSetup ? "" : program_.ops[op].label();
}

bool MemoryReplay::play(const TensorEvent& event, std::size_t op) {
  using Action = TensorEvent::Action;
  if (program_.tensors[event.tensor.index()].size <= Bytes(0)) return true;
  if (event.action == Action::take) return take(event.tensor, op);
  if (event.action == Action::finish) {
    finish(event.tensor);
  } else {
    give(event.tensor, event.action == Action::give_in_use, op);
  }
  return true;
}

bool MemoryReplay::take(TensorId id, std::size_t op) {
  const Tensor& tensor = program_.tensors[id.index()];
  Place& place = places_[id.index()];
  if (place.state != State::absent) {
    throw InternalError(fmt::format("internal error: {} memory is taken twice at \"{}\"",
                                    to_string(tensor.kind), label_of(op)));
  }
  place.size = whole_bytes(tensor.size);
  if (device_.caching) {
    const auto block = allocator_.malloc(place.size, tensor.stream);
    if (!block) {
      out_of_memory_ = {label_of(op), allocator_.out_of_memory_message(place.size)};
      return false;
    }
    place.block = *block;
    place.size = allocator_.size(*block);
  }
  place.state = State::held;
  by_kind_[static_cast<std::size_t>(tensor.kind)] += place.size;
  allocated_ += place.size;
  return true;
}

void MemoryReplay::give(TensorId id, bool in_use, std::size_t op) {
  const Tensor& tensor = program_.tensors[id.index()];
  Place& place = places_[id.index()];
  if (place.state != State::held) {
    if (iterations_ == 0) return;
    throw InternalError(
        fmt::format("internal error: {} memory that is not held is given back at \"{}\"",
                    to_string(tensor.kind), label_of(op)));
  }
  by_kind_[static_cast<std::size_t>(tensor.kind)] -= place.size;
  allocated_ -= place.size;
  place.state = in_use && device_.caching ? State::in_use : State::absent;
  if (!device_.caching) return;
  in_use ? allocator_.free_in_use(place.block) : allocator_.free(place.block);
}

void MemoryReplay::finish(TensorId id) {
  Place& place = places_[id.index()];
  if (place.state != State::in_use) return;
  place.state = State::absent;
  allocator_.finish(place.block);
}

std::vector<bool> MemoryReplay::which_held() const {
  std::vector<bool> held;
  held.reserve(places_.size());
  for (const Place& place : places_) held.push_back(place.state == State::held);
  return held;
}

void MemoryReplay::check_returns(const std::vector<bool>& before) const {
  const std::vector<bool> after = which_held();
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    throw InternalError(
        fmt::format("internal error: an iteration of \"{}\" {} {:.0f} B of {} memory",
                    program_.name, after[i] ? "keeps" : "loses", program_.tensors[i].size.value(),
                    to_string(program_.tensors[i].kind)));
  }
}

MemoryUse MemoryReplay::use() const {
  MemoryUse use;
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind)
    use.by_kind[kind] = Bytes(static_cast<double>(by_kind_[kind]));
  return use;
}

std::vector<std::pair<TensorId, std::int64_t>> MemoryReplay::held() const {
  std::vector<std::pair<TensorId, std::int64_t>> all;
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (places_[i].state == State::held) all.emplace_back(TensorId(i), places_[i].size);
  return all;
}

}  // namespace rehearse::inline memory
