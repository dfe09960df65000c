#pragma once

#include <optional>
#include <vector>

#include "strategy/layout/stage_plan.hpp"
#include "strategy/unit_passes.hpp"

namespace rehearse::inline strategy {

/// Goes through a plan's actions and writes what lies between them: what is received, sent, and
/// kept for which micro-batch.
class StageRunner {
 public:
  StageRunner(ProgramBuilder& builder, UnitPasses& passes, const StagePlan& plan);

  /// Before the first action of a step.
  void restart() { posted_ = 0; }
  /// Before an action's operations; what the first of them comes after.
  std::vector<After> begin(std::size_t action);
  /// Behind them.
  void end(std::size_t action);
  /// Whether no backward of the action's part comes before it, or behind it.
  bool is_first_backward(std::size_t action) const { return first_[action]; }
  bool is_last_backward(std::size_t action) const { return last_[action]; }

 private:
  struct Message {
    LaneId lane{};
    std::size_t group = 0;
  };
  struct Lanes {
    std::optional<Message> input, output, output_gradient, input_gradient;
  };

  std::optional<Message> message(std::optional<std::size_t> group, const char* name);
  const std::optional<Message>& received_by(std::size_t action) const;
  void post(const AskedInput& asked);
  OpId whole(std::size_t action);
  Bytes part_of(Bytes message) const { return message / static_cast<double>(plan_.alike); }
  void find_ends();
  void free_slot(const PipelineAction& action);
  void take_slot(const PipelineAction& action);
  void use_slot(const PipelineAction& action);
  OpId transfer(const Message& message, const char* what, Bytes size, std::vector<After> after);

  ProgramBuilder& builder_;
  UnitPasses& passes_;
  const StagePlan& plan_;
  std::vector<Lanes> lanes_;                                    ///< by part
  std::vector<std::vector<std::optional<std::size_t>>> slots_;  ///< by part and slot: micro-batch
  std::vector<bool> first_, last_;             ///< by action: backwards of its part
  std::vector<std::optional<OpId>> received_;  ///< by action
  std::vector<OpId> computed_;                 ///< by action: its last operation
  std::vector<AskedInput> asks_;               ///< by turn; of every action once
  std::size_t posted_ = 0;                     ///< of these, those that are over
  std::vector<After> sending_;
};

}  // namespace rehearse::inline strategy
