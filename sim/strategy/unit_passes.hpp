#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strategy/activation_offload.hpp"
#include "strategy/program_builder.hpp"

namespace rehearse::inline strategy {

/// A unit's forward or backward on the compute lane, preceded by its launch on the host lane where
/// that takes time, with the tensors of the model's tape, and with what ranks that share the unit
/// exchange inside it.
class UnitPasses {
 public:
  explicit UnitPasses(ProgramBuilder& builder) : builder_(builder), offload_(builder) {}

  /// A checkpointed unit's forward runs once more before its backward.
  OpId forward(std::size_t unit, std::vector<After> after);
  OpId backward(std::size_t unit, Gradients gradients, std::vector<After> after);
  /// The two parts of a backward: gradients of activations, for which recomputation comes first,
  /// and gradients of parameters.
  OpId backward_input(std::size_t unit, std::vector<After> after);
  OpId backward_weight(std::size_t unit, Gradients gradients, std::vector<After> after);
  /// Of what every rank of the tensor-parallel group has a part: the whole, `size`.
  OpId gather(const std::string& what, Bytes size, std::vector<After> after);

  /// Exchanges that the next computation waits for.
  const std::vector<After>& unawaited() const { return unawaited_; }
  void set_unawaited(std::vector<After> exchanges) { unawaited_ = std::move(exchanges); }
  /// Those of tokens with experts that there are.
  std::vector<LaneId> expert_lanes() const;

 private:
  /// Of a unit, forward or backward.
  struct PassCost {
    Seconds time, launch;
    double spread = 0;
    const PassSegments* segments = nullptr;  ///< of a unit that exchanges
    Seconds awaited{0};                      ///< UnitCost::awaited_launch
  };

  bool reads_batch(std::size_t unit) const;
  void load_batch(std::vector<After>& after);
  OpId unit_op(std::size_t unit, Verb pass, const PassCost& cost, std::vector<After> after);
  OpId compute(std::size_t unit, Verb pass, Seconds time, double spread, std::vector<After> after);
  OpId segments(std::size_t unit, Verb pass, const PassCost& cost, std::vector<After> after);
  OpId exchange(const Exchange& what, std::size_t unit, Verb pass);
  LaneId exchange_lane(ExchangeAxis axis);
  void recompute(std::size_t unit, std::vector<After>& after);

  ProgramBuilder& builder_;
  ActivationOffload offload_;
  std::vector<After> unawaited_;
  std::optional<LaneId> loader_;
  std::map<ExchangeAxis, LaneId> exchange_lanes_;
};

}  // namespace rehearse::inline strategy
