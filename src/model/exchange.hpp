#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rehearse::inline model {

/// The axis of a layout along which ranks exchange. Of the ranks that share experts: all, those of
/// one node, and those at one place of each node. `embedding`: those that share tables.
enum class ExchangeAxis : std::uint8_t {
  tensor,
  context,
  expert,
  expert_tensor,
  expert_node,
  expert_across,
  embedding
};
/// Collectives by the names of profile/collective_kind.hpp, which stands below this module.
enum class ExchangeKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  send_recv
};
/// Direction of a pass.
enum class Direction : std::uint8_t { forward, backward };

/// A place in a pass of a unit. Backward runs a unit's operators from the last to the first.
struct Cut {
  std::size_t before_operator = 0;  ///< it stands in front of this operator, in forward order
  /// In backward: true behind the gradient of that operator's input, in front of its weight's.
  bool between_gradients = false;

  bool operator==(const Cut&) const = default;
};
/// True where a pass comes by `left` before `right`.
bool comes_before(const Cut& left, const Cut& right, Direction pass);

/// Data that a unit exchanges with the other ranks of its layout, in one pass.
struct Exchange {
  ExchangeAxis axis = ExchangeAxis::tensor;
  ExchangeKind kind = ExchangeKind::all_reduce;
  /// Elements per sample of the batch, as nccl-tests counts a size. For all_reduce it is the buffer
  /// of one rank, for all_gather the gathered output, for reduce_scatter the input of one rank. For
  /// all_to_all it is what one rank has for all, for send_recv the message.
  double elements = 0;
  bool wide = false;  ///< of fp32; else as wide as activations
  Direction pass = Direction::forward;
  /// It begins once what stands before `issued` is done; what stands behind `awaited` waits for it.
  Cut issued, awaited;
  /// Turn among exchanges that are issued at one place: it waits for all of earlier turns.
  std::uint8_t turn = 0;
  bool narrow = false;  ///< what a product reads: in 8 bits where that runs in them
  /// Its parts are cast before DTensor gathers them, where torchao casts tensor-wise (with_float8).
  bool cast_first = false;
  bool float8 = false;     ///< its elements are bytes
  double wide_beside = 0;  ///< further elements of fp32, counted alike, by the same kernel

  /// Computation may run beside it.
  bool overlappable() const { return issued != awaited; }
};

/// Sorts exchanges by pass, in the order in which they are issued.
void order_exchanges(std::vector<Exchange>& exchanges);

/// Share of a parameter that a rank of a tensor-parallel group has.
enum class ParameterShare : std::uint8_t {
  sharded,     ///< a part of its own
  replicated,  ///< the whole, and the whole gradient: all ranks compute the same
  /// The whole, but the gradient of its own tokens or heads: an all_reduce over the tensor group
  /// sums it once per step (Megatron-LM's finalize_model_grads).
  summed,
  expert  ///< its own experts, whose gradient is reduced among the ranks that have the same ones
};

}  // namespace rehearse::inline model
