#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/id.hpp"
#include "base/quantity.hpp"
#include "cluster/cluster.hpp"
#include "profile/collective_kind.hpp"

namespace rehearse {

/// `automatic` takes the cheapest by the links' own latency and rate, as NCCL's tuning does.
enum class CollectiveAlgorithm { automatic, ring, tree, hierarchical, direct };
std::string to_string(CollectiveAlgorithm algorithm);

/// Computation, scaled by the rank's speed and, where `jittered`, by its jitter of that iteration.
struct Compute {
  Seconds duration;
  bool jittered = true;
};
/// Starts when every member of the group has reached it; ends for all of them together.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::size_t group = 0;  ///< index into RankSpec::groups
  Bytes size;             ///< as nccl-tests counts it (CollectiveKind)
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
};
/// A point-to-point message that needs no partner operation; an end that is missing is the rank
/// itself.
struct Transfer {
  std::optional<RankId> source{}, target{};
  Bytes size;
};
/// Takes no time: joins what it comes after.
struct Join {};
using Work = std::variant<Compute, Collective, Transfer, Join>;

/// After operation `op` of the same rank in the iteration `distance` before this one (0: the same).
/// Iterations before the first count as done.
struct After {
  OpId op;
  std::uint32_t distance = 0;
};
/// After the event's instance of the iteration `distance` before this one.
struct Await {
  EventId event;
  std::uint32_t distance = 0;
};

enum class MemoryKind {
  parameters,
  gradients,
  optimizer_state,
  activations,
  buckets,
  gathered,
  workspace,
  communication
};
inline constexpr std::size_t kMemoryKinds = 8;
std::string to_string(MemoryKind kind);
/// Bytes taken (positive) when the operation starts or given back (negative) when it ends.
struct MemoryEffect {
  MemoryKind kind;
  Bytes change;
};

/// What an operation is to a parameter server's clock; the trace derives staleness from it, and
/// which gradients are in an update that waits for several (`gather_gradient`).
enum class UpdateRole : std::uint8_t { none, read_parameters, gather_gradient, apply_update };

/// What an operation is for, for breakdowns and colours.
enum class Phase : std::uint8_t { forward, backward, optimizer, communication, host, server };

struct Op {
  std::string label{};  ///< "backward layer3.0", "all_reduce bucket 2 (25.0 MiB)"
  Phase phase = Phase::forward;
  std::optional<LaneId> lane{};  ///< runs in this stream's order
  /// Or is served by this queue in order of arrival; neither: runs when ready, in both cases once
  /// its own previous iteration is over.
  std::optional<QueueId> queue{};
  Work work = Join{};
  std::vector<After> after{};
  std::vector<Await> awaits{};
  /// Each gets one signal for this iteration when the operation ends.
  std::vector<EventId> signals{};
  std::vector<MemoryEffect> memory{};
  UpdateRole role = UpdateRole::none;
};

enum class LaneKind : std::uint8_t { compute, communication, host };
/// A stream of one rank: its operations run one at a time in program order, iteration after
/// iteration.
struct Lane {
  std::string name{};  ///< "compute", "nccl", "nccl (replicas)", "host"
  LaneKind kind = LaneKind::compute;
};

/// What like ranks do in one iteration. `ops` stand in the order in which the host issues them,
/// which is also the order in which memory is taken and given back.
struct Program {
  std::string name{};  ///< "worker", "server"
  std::vector<Lane> lanes{};
  std::vector<Op> ops{};
  std::vector<MemoryEffect> resident{};  ///< held from the start to the end
};

/// Ranks of a communicator, in ring order. After folding `members` are those that are simulated and
/// `ranks`, `nodes` what they stand for.
struct Group {
  std::string name{};
  std::vector<RankId> members{};
  std::size_t ranks = 0;
  std::size_t nodes = 0;
};

/// A shared server that takes operations of any rank one at a time, in order of arrival.
struct Queue {
  std::string name{};
  RankId owner{};
};

/// Instance k happens when `needs` signals of iteration k have come; later ones of that iteration
/// are ignored.
struct Event {
  std::string name{};
  std::size_t needs = 1;
};

struct RankSpec {
  ProgramId program{};
  Place place{};
  double slowdown = 1;            ///< multiplies every Compute
  std::vector<GroupId> groups{};  ///< by the program's group slots
};

/// The spread of compute times: every (rank, iteration) draws one factor of mean 1.
struct Jitter {
  enum class Distribution { none, lognormal, exponential };
  Distribution distribution = Distribution::none;
  double cv = 0;  ///< standard deviation over mean (lognormal; an exponential has 1)
};

/// A training run as plain data: what runs on which lane after what, for `iterations` rounds.
struct Schedule {
  std::vector<Program> programs;
  std::vector<RankSpec> ranks;
  std::vector<Group> groups;
  std::vector<Queue> queues;
  std::vector<Event> events;
  std::uint32_t iterations = 1;
  Jitter jitter;
  std::uint64_t seed = 1;
  /// Compute on a rank takes this many times longer while one of its collectives or transfers is in
  /// flight, and they take no longer for it. Nothing: as the calibrated costs say of each
  /// collective, both ways, and beside transfers no longer.
  std::optional<double> overlap_slowdown;

  const Program& program_of(RankId rank) const {
    return programs[ranks[rank.index()].program.index()];
  }
};

/// InternalError unless: every id is in range; lane order plus same-iteration edges is acyclic
/// within each program; no edge of distance 0 points to a later event of itself; every group issues
/// its collectives in one order on all members.
void validate(const Schedule& schedule);

/// The factor on the compute time of a rank in an iteration: slowdown times jitter.
double compute_factor(const Schedule& schedule, RankId rank, std::uint32_t iteration);

/// Keeps the ranks of the first two nodes (of one if there is but one), which stand for all: same
/// schedule, same byte and step counts, fewer ranks. Nothing, with the reason in `why_not`, if
/// ranks are not alike (several programs, speeds, node groups; jitter; queues; groups that two
/// nodes cannot stand for) or share more than their NICs (the cores of one machine; a fabric other
/// than a star or a non-blocking fat-tree; on the latter, trees and several NICs on one route) or
/// share those unevenly (trees on NICs with a burst).
struct Folded {
  Schedule schedule;
  Cluster cluster;
};
std::optional<Folded> fold(const Schedule& schedule, const Cluster& cluster, std::string& why_not);

}  // namespace rehearse
