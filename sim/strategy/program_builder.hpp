#pragma once

#include <optional>
#include <string>
#include <vector>

#include "strategy/strategy.hpp"
#include "strategy/unit_tapes.hpp"

namespace rehearse::inline strategy {

/// Writes a program operation by operation, in the order in which the host issues them, with the
/// tensors that it takes and gives back.
class ProgramBuilder {
 public:
  /// `computes`: what units compute in whose parameters are views of flat ones; nothing: as stored.
  ProgramBuilder(std::string name, const StepCosts& costs, const Job& job,
                 std::optional<Precision> computes = std::nullopt);
  ProgramBuilder(const ProgramBuilder&) = delete;
  ProgramBuilder& operator=(const ProgramBuilder&) = delete;

  LaneId lane(std::string name, LaneKind kind);
  /// Appends an operation; the reference holds until the next call.
  Op& add(Op op);
  OpId last() const { return OpId(program.ops.size() - 1); }
  Op& operator[](OpId id) { return program.ops[id.index()]; }

  /// Begins micro-batch `index` of `count`. Those between the third and the last take and give back
  /// what the second does and are left out of the replay of memory.
  void micro_batch(int index, int count);
  /// Begins training step `index` of the `count` of an iteration: as micro_batch(), with a jitter
  /// of its own.
  void training_step(int index, int count);
  std::uint32_t training_step() const { return step_; }

  /// A unit's computation, or a part of it.
  OpId compute(std::size_t unit, Verb pass, Seconds time, double spread, std::vector<After> after);
  /// The last of these.
  std::optional<OpId> last_computed() const { return last_computed_; }
  /// Another kernel of the step.
  OpId kernel(Verb verb, const std::string& of, Phase phase, Seconds duration,
              std::vector<After> after);
  /// A copy of gradients on the compute lane, which reads and writes `moved` in all; nothing where
  /// such copies cost nothing (StepCosts::copy_time).
  std::optional<OpId> copy(const std::string& what, Bytes moved, std::vector<After> after);
  /// Issued by the host after all that it has launched so far.
  OpId collective(LaneId lane, std::string what, Collective collective, std::vector<After> after);

  /// The host launches a pass; nothing where it computes itself, or where launches take no time.
  std::optional<OpId> launch(Verb pass, const std::string& of, Seconds duration);
  /// Holds the host back until `after` is over (an event.synchronize()); what it issues later waits
  /// with it. Without a host lane there is nothing to hold, and the caller's own edges must say it.
  void block_host(std::string what, std::vector<After> after);
  /// The host goes on once `op` is over, which it has done itself.
  void issued_behind(OpId op) { last_on_host_ = op; }
  std::optional<OpId> last_on_host() const { return last_on_host_; }
  /// The thread that issues operations also computes: what it issues comes after what it computed.
  bool host_computes() const { return costs_.host_computes; }

  /// What the next operations come after, and how to go back there: two actions that run beside
  /// each other begin at one.
  struct Position {
    std::optional<OpId> last_computed{}, last_on_host{};
  };
  Position position() const { return {last_computed_, last_on_host_}; }
  void go_back(const Position& position) {
    last_computed_ = position.last_computed;
    last_on_host_ = position.last_on_host;
  }

  /// A tensor of the program; taken by nobody yet. Units own those that bear their index.
  TensorId tensor(MemoryKind kind, Bytes size, std::uint32_t owner, std::uint32_t stream = 0);
  /// Another owner of tensors than a unit.
  std::uint32_t owner(std::string name);
  /// Taken before the first iteration, and kept.
  void hold(TensorId id) { program.setup.push_back({id, TensorEvent::Action::take}); }
  void take(OpId op, TensorId id) { note(op, {id, TensorEvent::Action::take}); }
  void give(OpId op, TensorId id) { note(op, {id, TensorEvent::Action::give}); }
  void note(OpId op, const TensorEvent& event);

  UnitTapes& tapes() { return tapes_; }
  const UnitTapes& tapes() const { return tapes_; }
  LaneId compute_lane() const { return compute_; }
  std::optional<LaneId> host_lane() const { return host_; }
  const StepCosts& costs() const { return costs_; }
  const Job& job() const { return job_; }
  Precision computes() const { return computes_; }

  Program program;

 private:
  std::optional<StepCosts> waited_;  ///< where the host waits for each kernel
  const StepCosts& costs_;
  const Job& job_;
  Precision computes_;
  UnitTapes tapes_;
  LaneId compute_;
  std::optional<LaneId> host_;
  std::optional<OpId> last_on_host_, last_computed_;
  bool notes_memory_ = true, notes_step_ = true;
  std::uint32_t step_ = 0;
};

/// Bytes of a unit's trained parameters.
Bytes parameter_bytes(const Unit& unit, Precision precision);
Bytes parameter_bytes(const Model& model, Precision precision);
Bytes expert_bytes(const Model& model, Precision precision);  ///< those of ParameterShare::expert

}  // namespace rehearse::inline strategy
