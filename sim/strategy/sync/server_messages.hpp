#pragma once

#include <vector>

#include "strategy/program_builder.hpp"
#include "strategy/sync/server.hpp"

namespace rehearse::inline strategy {

/// Messages between one GPU and the servers, part by part, or what it shares of them with the GPUs
/// of its node.
class ServerMessages {
 public:
  /// All references outlive it.
  ServerMessages(const ParameterServer& options, const ServerSide& side, const WorkerPart& part,
                 ProgramBuilder& builder);

  /// The operation that leaves a part's parameters on this GPU.
  OpId receive(std::size_t p);
  /// Passes a part's gradients on.
  void send(std::size_t p, OpId computed);
  const std::vector<Part>& parts() const { return parts_; }
  OpId last_push() const { return last_push_; }

 private:
  enum class Way { pull, push };

  OpId pull(std::size_t p);
  void push(std::size_t p, OpId computed);
  void apply(std::size_t p);
  void add_message(std::size_t p, Way way, Op op);
  OpId handle(Way way, std::size_t p, OpId after);
  void give_gradients(std::size_t p);
  /// What travels of a part to the server.
  Seconds messages(std::size_t p) const;
  Bytes pushed_bytes(std::size_t p) const;

  const ParameterServer& options_;
  const std::vector<Part>& parts_;
  const std::vector<Server>& servers_;
  const Clock& clock_;
  WorkerPart part_;
  ProgramBuilder& builder_;
  std::vector<LaneId> pull_lanes_, push_lanes_;
  LaneId node_lane_{};
  OpId last_push_{};
  std::vector<OpId> reads_;  ///< by part: what its next iteration's own gradients come before
};

}  // namespace rehearse::inline strategy
