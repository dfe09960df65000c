#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace rehearse::inline engine {

/// Computations in flight on the same cores, one thread each. With n of them on c cores each goes
/// on at min(1, c/n) of its pace (processor sharing, as a fair scheduler's), and what slows one of
/// them down slows it by so much again. Cores that have memory and clock in common slow each other
/// down: n <= c take 1 + (busy - 1) (n - 1) / (c - 1) times as long. Times are seconds.
class Cores {
 public:
  /// Who computes: an operation of a rank, or a host that handles a step of a collective.
  struct Task {
    enum class Kind : std::uint8_t { operation, handling };
    std::uint32_t of = 0, what = 0;  ///< rank and operation, or collective and flow
    Kind kind = Kind::operation;
    bool operator==(const Task&) const = default;
  };

  /// Without a number: a core for everyone.
  explicit Cores(double cores = std::numeric_limits<double>::infinity(), double busy = 1)
      : cores_(cores), busy_(busy) {}

  /// Begins what takes `duration` on a core of its own, `slowdown` times as long for other reasons.
  void begin(Task task, double duration, double slowdown, double now);
  /// From now on the task takes `slowdown` times as long.
  void slow(Task task, double slowdown, double now);
  /// Ends the task that next_end() speaks of.
  Task end_next(double now);

  /// The share of a rank's computations in which they stood ready and had no core; 0 where there
  /// were none.
  double ready_share(std::uint32_t rank) const;
  /// Operations of ranks that run.
  std::size_t operations() const;
  bool idle() const { return running_.empty(); }
  /// When the first one ends if nothing else changes; of several the one that began first. Not when
  /// idle.
  double next_end() const;
  /// Counts the changes: what next_end() said under another version no longer holds.
  std::uint32_t version() const { return version_; }

 private:
  struct Running {
    Task task;
    double remaining = 0, slowdown = 1;
  };

  /// How long a rank's computations were here, and without a core.
  struct Stay {
    double whole = 0, ready = 0;
  };

  double share() const;
  double left_of(const Running& running) const;
  std::size_t next() const;
  void advance(double now);

  double cores_, busy_;
  std::vector<Running> running_;  // in the order of their beginning
  std::vector<Stay> stays_;       // by rank, as far as some came
  double since_ = 0;              // when `remaining` held
  std::uint32_t version_ = 0;
};

}  // namespace rehearse::inline engine
