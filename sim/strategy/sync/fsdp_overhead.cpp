#include "strategy/sync/fsdp_overhead.hpp"

namespace rehearse::inline strategy {
namespace {

/// Operators that take the host as long as the hooks for one group in one pass. FSDP2's took 2.5 ms
/// where an operator took 49 us. FSDP1's took 1.4 to 2.3 ms for a block of Llama and 1.6 to 1.9 ms
/// for a convolution of ResNet-50 (tests/validation/hopper, h200_mechanisms.yaml).
constexpr double kHooks = 50, kFlatHooks = 36;

/// What a conversion of so many elements moves: nothing where both are of one size.
Bytes converted(double elements, Bytes from, Bytes to) {
  return from == to ? Bytes(0) : elements * (from + to);
}

}  // namespace

// The root's own parameters stay gathered (_post_forward_reshard in
// torch/distributed/fsdp/_runtime_utils.py), and a model that is wrapped as a whole is all root.
bool reshards_after_forward(const ShardedParameters& options,
                            const std::vector<FlatParameter>& runs) {
  return options.sharding != TorchFsdp1::Sharding::shard_grad_op && runs.size() > 1;
}

// FSDP's hooks run on the host before a FlatParameter's first unit, either way; and autograd copies
// the gradients of its parts, of the type that it computed with, into one flat tensor. Under
// MixedPrecision each share is converted before it is gathered, and whole gradients before they are
// reduced (_flat_param.py: _use_low_precision_shard; _runtime_utils.py: _post_backward_hook).
// One GPU alone is trained without FSDP.
//
// FSDP2 copies each share into what is gathered, what is gathered into the parameters, and whole
// gradients into what is reduced (fully_shard/_fsdp_collectives.py).
StepCosts with_fsdp_overhead(StepCosts costs, const std::vector<FlatParameter>& runs,
                             const ShardedParameters& options, const Job& job,
                             const Shards& shards) {
  const bool alone = job.replicas() == 1;
  const Precision computes = computes_in(options, job.precision);
  const Bytes stored = parameter_element(job.precision);
  const Bytes gathered = parameter_element(computes);
  const Bytes reduced = parameter_element(options.reduce_dtype.value_or(computes));
  const double usual = alone ? 0 : options.keeps_tensors() ? kHooks : kFlatHooks;
  for (const FlatParameter& run : runs) {
    const Seconds hooks =
        run.wrapped_modules * options.host_overhead.value_or(usual * costs.host_operator);
    costs.units[run.first].forward_launch += hooks;
    costs.units[run.last].backward_launch += hooks;
    if (alone) continue;
    const double own = run.own(shards);
    if (options.keeps_tensors()) {
      const Bytes whole = FsdpMemory::whole(run, gathered);
      const Bytes gather = own * (stored + gathered) + 2 * whole;
      // A part of those after forward is copied out of what was gathered, and into it again.
      const Bytes part = 2 * FsdpMemory::part_after_forward(options, whole);
      const bool again = reshards_after_forward(options, runs);
      costs.units[run.first].forward += costs.copy_time(gather);
      costs.units[run.last].forward += costs.copy_time(again ? part : Bytes(0));
      costs.units[run.last].backward += costs.copy_time(!again            ? Bytes(0)
                                                        : part > Bytes(0) ? part + 2 * whole
                                                                          : gather);
      costs.units[run.first].backward +=
          costs.copy_time(static_cast<double>(run.graded + run.trained_experts),
                          run.storage == StoredAs::fp32 ? Bytes(4) : gathered,
                          run.storage == StoredAs::fp32 ? Bytes(4) : reduced);
      continue;
    }
    if (options.adds_to_views()) {
      costs.units[run.first].backward += costs.copy_time(3 * run.own_graded(shards) * reduced);
      continue;
    }
    const Bytes share = converted(own, stored, gathered);
    const auto graded = static_cast<double>(run.graded + run.trained_experts);
    costs.units[run.first].forward += costs.copy_time(share);
    costs.units[run.first].backward += costs.copy_time(
        share + 2 * FsdpMemory::gradients(run, gathered) + converted(graded, gathered, reduced));
  }
  return costs;
}

}  // namespace rehearse::inline strategy
