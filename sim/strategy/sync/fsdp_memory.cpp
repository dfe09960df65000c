#include "strategy/sync/fsdp_memory.hpp"

#include <ranges>

#include "strategy/holdings.hpp"

namespace rehearse::inline strategy {

namespace {

using Action = TensorEvent::Action;

/// Streams beside the one that computes: FSDP's unshard stream and its post-backward stream.
constexpr std::uint32_t kUnshard = 1, kPostBackward = 2;

}  // namespace

FsdpMemory::FsdpMemory(ProgramBuilder& builder, const ShardedParameters& options,
                       const std::vector<FlatParameter>& runs, const Shards& shards)
    : builder_(builder),
      options_(options),
      runs_(runs),
      shards_(shards),
      stored_element_(parameter_element(builder.job().precision)) {
  gathered_element_ = parameter_element(builder.computes());
  reduced_element_ = parameter_element(options.reduce_dtype.value_or(builder.computes()));
  for (std::size_t run = 0; run < runs.size(); ++run) tensors_.push_back(make_tensors(run));
}

FsdpMemory::RunTensors FsdpMemory::make_tensors(std::size_t run) {
  const FlatParameter& flat = runs_[run];
  const auto owner = static_cast<std::uint32_t>(flat.first);
  const auto share = [&](Bytes element) { return share_of(flat, element); };
  const auto gradient = [&](Bytes element) {
    return flat.own_graded(shards_) * (flat.storage == StoredAs::fp32 ? Bytes(4) : element);
  };
  const auto make = [&](MemoryKind kind, Bytes size, std::uint32_t stream) {
    return builder_.tensor(kind, size, owner, stream);
  };
  // What a rank has for itself is used as it is stored.
  const bool used_as_stored = shards_.experts == 1 && gathered_element_ == stored_element_;
  const Bytes idle =
      used_as_stored ? static_cast<double>(flat.experts) * gathered_element_ : Bytes(0);
  const Bytes gathered = options_.gathers_once ? Bytes(0) : whole(flat, gathered_element_) - idle;
  const bool copies = options_.cpu_offload && on_gpu();
  const bool casts = gathered_element_ != stored_element_;
  const bool casts_back = reduced_element_ != gathered_element_;
  RunTensors all;
  all.owner = owner;
  all.gloo = make(MemoryKind::communication, on_gpu() ? Bytes(0) : gathered, kUnshard);
  all.copied = make(MemoryKind::gathered, copies ? share(stored_element_) : Bytes(0), kUnshard);
  all.low_precision =
      make(MemoryKind::gathered, casts ? share(gathered_element_) : Bytes(0), kUnshard);
  all.output = make(MemoryKind::gathered, options_.keeps_tensors() ? gathered : Bytes(0), kUnshard);
  all.part = make(MemoryKind::gathered, part_after_forward(options_, gathered), 0);
  all.gathered_forward = make(MemoryKind::gathered, gathered, kUnshard);
  all.gathered_backward = make(MemoryKind::gathered, gathered, kUnshard);
  // FSDP2 copies the gradients of its parameters into what is reduced, in its type.
  const bool flattens = !options_.keeps_tensors();
  all.flat = make(
      MemoryKind::gradients,
      gradients(flat, flattens && !options_.adds_to_views() ? gathered_element_ : reduced_element_),
      0);
  all.whole = make(MemoryKind::gradients,
                   options_.no_sync ? gradients(flat, gathered_element_) : Bytes(0), 0);
  all.cast =
      make(MemoryKind::gradients,
           casts_back && flattens && !options_.adds_to_views() ? gradients(flat, reduced_element_)
                                                               : Bytes(0),
           kPostBackward);
  // A CPU exchanges the parts and sums them itself.
  all.received = make(MemoryKind::gradients,
                      on_gpu() ? gradient(reduced_element_) : gradients(flat, reduced_element_),
                      kPostBackward);
  // Megatron-LM's stays from step to step (hold()).
  const Bytes added = options_.adds_to_views() ? Bytes(0) : gradient(stored_element_);
  all.gradient = make(MemoryKind::gradients, added, kPostBackward);
  all.added = make(MemoryKind::gradients, added, kPostBackward);
  return all;
}

Bytes FsdpMemory::share_of(const FlatParameter& run, Bytes element) const {
  return run.own(shards_) * element + run.others / static_cast<double>(shards_.all);
}

Bytes FsdpMemory::stored(std::size_t run) const { return share_of(runs_[run], stored_element_); }

void FsdpMemory::hold() {
  const bool on_host = options_.cpu_offload && on_gpu();
  for (std::size_t run = 0; run < runs_.size() && !on_host; ++run)
    builder_.hold(
        builder_.tensor(MemoryKind::parameters,
                        options_.gathers_once ? whole(runs_[run], gathered_element_) : stored(run),
                        tensors_[run].owner));
  for (std::size_t run = 0; run < runs_.size() && options_.adds_to_views(); ++run)
    builder_.hold(builder_.tensor(MemoryKind::gradients,
                                  runs_[run].own_graded(shards_) * reduced_element_,
                                  tensors_[run].owner));
  for (std::size_t run = 0; run < runs_.size(); ++run)
    if (runs_[run].scales > Bytes(0))
      builder_.hold(
          builder_.tensor(MemoryKind::parameters, runs_[run].scales, tensors_[run].owner));
  hold_surroundings(builder_,
                    options_.buffer_dtype ? parameter_element(*options_.buffer_dtype) : Bytes(4));
}

void FsdpMemory::gather(std::size_t run, OpId op, bool backward) {
  RunTensors& all = tensors_[run];
  all.held = backward ? all.gathered_backward : all.gathered_forward;
  builder_.note(op, {all.held, Action::finish});
  builder_.take(op, all.low_precision);
  builder_.take(op, all.output);
  if (!options_.keeps_tensors()) builder_.take(op, all.held);
  builder_.take(op, all.gloo);
  if (backward) builder_.give(op, all.part);
  builder_.give(op, all.low_precision);
  builder_.give(op, all.copied);
  all.gathering = true;
}

void FsdpMemory::finish_gather(std::size_t run) {
  RunTensors& all = tensors_[run];
  if (all.gathering) {
    if (options_.keeps_tensors()) builder_.take(builder_.last(), all.held);
    builder_.give(builder_.last(), all.gloo);
    builder_.give(builder_.last(), all.output);
  }
  all.gathering = false;
}

std::vector<TensorId> FsdpMemory::free(std::size_t run, OpId op) {
  builder_.note(op, {tensors_[run].held, Action::give_in_use});
  return {tensors_[run].held};
}

std::vector<TensorId> FsdpMemory::collect(std::size_t run, OpId op) {
  const TensorId flat = tensors_[run].flat;
  std::vector<TensorId> parts = collected(run);
  if (keeps_reduced()) {
    free(run, op);
    finish_reduce(op);
    builder_.take(op, flat);
    for (const TensorId id : parts) builder_.give(op, id);
    return {tensors_[run].held};
  }
  if (options_.adds_to_views()) {
    if (!options_.gathers_once) free(run, op);
    return {tensors_[run].held};
  }
  if (on_gpu()) {
    builder_.note(op, {flat, Action::finish});
    builder_.take(op, flat);
    for (const TensorId id : parts) builder_.give(op, id);
    free(run, op);
  } else {
    free(run, op);
    finish_reduce(op);  // the flat gradients of one run at a time travel
    builder_.take(op, flat);
    // Autograd holds the last one until its hook, which starts the reduction, returns.
    for (const TensorId id : parts)
      if (id != last_ready(run)) builder_.give(op, id);
  }
  return {tensors_[run].held, flat};
}

/// The gradients of the run's parameters, in the order in which they are made.
std::vector<TensorId> FsdpMemory::collected(std::size_t run) const {
  std::vector<TensorId> all;
  for (const std::size_t unit : std::views::reverse(runs_[run].apart))
    for (const TensorId id : builder_.tapes().gradients(unit)) all.push_back(id);
  for (std::size_t unit = runs_[run].last + 1; unit-- > runs_[run].first;)
    for (const TensorId id : builder_.tapes().gradients(unit)) all.push_back(id);
  return all;
}

/// The run's gradient that reaches its AccumulateGrad last: of its first unit that has any.
std::optional<TensorId> FsdpMemory::last_ready(std::size_t run) const {
  for (std::size_t unit = runs_[run].first; unit <= runs_[run].last; ++unit)
    if (!builder_.tapes().gradients(unit).empty()) return builder_.tapes().last_ready(unit);
  return std::nullopt;
}

void FsdpMemory::reduce(std::size_t run, OpId op) {
  const RunTensors& all = tensors_[run];
  if (!on_gpu()) {
    builder_.take(op, all.received);
    if (const auto last = last_ready(run)) builder_.give(op, *last);
    reducing_ = run;
    return;
  }
  builder_.take(op, all.cast);
  // What is received is the gradient where neither its type nor its place is another.
  const bool is_gradient =
      !sends_gradients() && !options_.adds_to_views() && reduced_element_ == stored_element_;
  if (!is_gradient) builder_.take(op, all.received);
  if (keeps_reduced()) {
    reducing_ = run;
  } else {
    builder_.note(op, {all.flat, Action::give_in_use});
  }
  if (!sends_gradients()) keep_gradient(run, op);
  const bool is_used = !sends_gradients() || leaves_at_once();
  if (!is_gradient && is_used) builder_.give(op, all.received);
  builder_.give(op, all.cast);
}

void FsdpMemory::keep_whole(std::size_t run, OpId op, bool first) {
  const RunTensors& all = tensors_[run];
  builder_.give(op, all.flat);
  if (first) builder_.take(op, all.whole);
}

void FsdpMemory::add_whole(std::size_t run, OpId op) { builder_.give(op, tensors_[run].whole); }

void FsdpMemory::copy_out(std::size_t run, OpId op) {
  if (on_gpu()) builder_.give(op, tensors_[run].received);
}

void FsdpMemory::finish_reduce(OpId op) {
  if (!reducing_) return;
  if (keeps_reduced()) {
    builder_.give(op, tensors_[*reducing_].flat);
    reducing_.reset();
    return;
  }
  keep_gradient(*reducing_, op);
  builder_.give(op, tensors_[*reducing_].flat);
  builder_.give(op, tensors_[*reducing_].received);
  reducing_.reset();
}

void FsdpMemory::keep_gradient(std::size_t run, OpId op) {
  const RunTensors& all = tensors_[run];
  if (first_ && builder_.job().set_to_none) return builder_.take(op, all.gradient);
  builder_.take(op, all.added);
  builder_.give(op, all.added);
  if (first_) builder_.note(op, {all.gradient, Action::take, true});
}

void FsdpMemory::finish(OpId op, const std::vector<TensorId>& tensors) {
  for (const TensorId id : tensors) builder_.note(op, {id, Action::finish});
}

void FsdpMemory::update(OpId op) {
  std::vector<Trained> shares;
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    const RunTensors& all = tensors_[run];
    finish(op, {all.gathered_forward, all.gathered_backward, all.flat});
    if (const std::int64_t own = runs_[run].own_trained(shards_); own > 0)
      shares.push_back({own, all.owner, runs_[run].storage});
  }
  if (sends_gradients()) return;
  rehearse::update(builder_, op, shares, {.at_once = options_.sub_group_size});
  for (const RunTensors& all : tensors_)
    if (builder_.job().set_to_none) builder_.give(op, all.gradient);
}

}  // namespace rehearse::inline strategy
