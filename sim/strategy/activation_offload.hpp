#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strategy/program_builder.hpp"

namespace rehearse::inline strategy {

/// Inputs of checkpointed units that wait for backward in host memory.
class ActivationOffload {
 public:
  explicit ActivationOffload(ProgramBuilder& builder) : builder_(builder) {}

  bool moves(std::size_t unit) const;
  /// Before the unit's forward, behind it, before its recomputation, and behind its backward.
  void move_out(std::size_t unit);
  void free_moved(OpId forward);
  void move_in(std::size_t unit, std::vector<After>& after);
  void end_moved(std::size_t unit, OpId backward);

 private:
  OpId host_copy(const std::string& what, std::size_t unit, std::vector<After> after);
  const std::vector<TensorId>& inputs(std::size_t unit) const {
    return builder_.tapes().inputs(unit);
  }

  ProgramBuilder& builder_;
  /// Units whose inputs are on their way to the host, and the copies.
  std::vector<std::pair<std::size_t, OpId>> leaving_;
  std::optional<LaneId> copies_;
  std::optional<std::size_t> returned_;  ///< the unit whose input goes with the next one's backward
  std::optional<OpId> last_returned_, before_last_;  ///< backwards of such units
};

}  // namespace rehearse::inline strategy
