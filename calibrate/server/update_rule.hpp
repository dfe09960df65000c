#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convergence/update_log.hpp"
#include "server/sgd_parameters.hpp"

namespace rehearse::inline calibrate {

/// When a worker may read the parameters, and when its gradient is applied.
enum class ServerMode {
  synchronous,  ///< one update per round: the mean over all workers, or over the first that came
  bounded,      ///< stale-synchronous parallel: no worker is more than `staleness` iterations ahead
  asynchronous,  ///< nobody waits
};

struct UpdateRuleOptions {
  int workers = 1;
  ServerMode mode = ServerMode::synchronous;
  std::uint64_t staleness = 0;  ///< bounded: iterations that a worker may be ahead of the slowest
  int backup_workers = 0;       ///< synchronous: a round takes the first workers - backup_workers
  /// Bounded or asynchronous: after so many synchronous rounds, in which every worker counts.
  std::uint64_t warmup_rounds = 0;
  SgdOptions sgd;
};

/// The server without its network: parameters, clocks and the update log. Workers are numbered from
/// 0.
///
/// Bounded: a pull is answered while the worker's own iterations - the fewest of any worker that is
/// not finished <= staleness (Ho et al., "More Effective Distributed ML via a Stale Synchronous
/// Parallel Parameter Server", NIPS 2013). An update's staleness then is at most
/// (workers - 1)(2 staleness + 1). Backup workers: Chen et al., "Revisiting Distributed Synchronous
/// SGD", 2016; a gradient that comes after its round was applied is dropped.
class UpdateRule {
 public:
  /// InputError if the options do not fit together.
  explicit UpdateRule(const UpdateRuleOptions& options);

  void set_parameters(ElementType type, std::span<const std::byte> initial);

  /// Whether a pull of this worker is answered now.
  bool may_read(std::size_t worker) const;
  /// The iteration that this worker computes next. Synchronous: the round.
  std::uint64_t next_iteration(std::size_t worker) const;
  /// Updates applied so far.
  std::uint64_t version() const { return version_; }
  std::shared_ptr<const std::vector<std::byte>> snapshot() { return parameters_.snapshot(); }
  /// The same for a worker that reads them now.
  std::shared_ptr<const std::vector<std::byte>> read(std::size_t worker);

  struct Push {
    std::size_t worker = 0;
    std::uint64_t iteration = 0;
    std::uint64_t version_read = 0;
    std::vector<std::byte> gradient;
  };
  /// Takes a gradient and applies what may be applied. `now` since the run began.
  void push(Push push, Seconds now);

  /// The worker sends nothing more; nobody waits for its clock.
  void finish(std::size_t worker);

  /// Why a worker that may not read now never will; nothing while it may yet.
  std::optional<std::string> reason_stuck() const;

  const UpdateLog& log() const { return log_; }
  /// Gradients that came after their round.
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct Worker {
    std::uint64_t pushed = 0;  ///< iterations; synchronous: the round after its last
    bool finished = false;
    /// Delay compensation: what its next gradient is computed from.
    std::shared_ptr<const std::vector<std::byte>> read{};
  };
  /// Whether the next update is a synchronous round's.
  bool in_rounds() const;
  int round_size() const { return options_.workers - options_.backup_workers; }
  std::uint64_t slowest() const;
  void apply(std::vector<Push>& pushes, Seconds now);

  UpdateRuleOptions options_;
  SgdParameters parameters_;
  std::vector<Worker> workers_;
  std::vector<Push> round_;
  std::uint64_t version_ = 0;
  std::uint64_t dropped_ = 0;
  UpdateLog log_;
};

}  // namespace rehearse::inline calibrate
