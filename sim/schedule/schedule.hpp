#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/id.hpp"
#include "base/quantity.hpp"
#include "cluster/cluster.hpp"
#include "mesh/mesh.hpp"
#include "profile/collective_kind.hpp"
#include "schedule/tensor.hpp"

namespace rehearse::inline schedule {

/// `automatic` takes the cheapest by the links' own latency and rate, as NCCL's tuning does.
enum class CollectiveAlgorithm { automatic, ring, tree, hierarchical, direct };
std::string to_string(CollectiveAlgorithm algorithm);

/// Computation, scaled by the rank's speed and, where `jittered`, by its jitter of that iteration.
struct Compute {
  Seconds duration;
  bool jittered = true;
  std::uint32_t step = 0;  ///< of Program::steps: each has a jitter of its own
  /// Interquartile range over median of what it took when it was measured; 0: not known.
  double spread = 0;
};
/// Starts when every member of the group has reached it, and ends for all of them together; over
/// sockets at hop fidelity each member begins, and ends, for itself.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::size_t group = 0;  ///< index into RankSpec::groups
  Bytes size;             ///< as nccl-tests counts it (CollectiveKind)
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  /// Of an operation on no lane: once all members have come, those of its group that have turns go
  /// one at a time. Of those that wait, the least turn is next, and of equals the first to come.
  std::optional<std::uint32_t> turn{};
  /// Multiprocessors that its kernel has for itself, which compute beside it lacks, whatever
  /// Schedule::overlap_slowdown is; 0: as many as NCCL's channels. Nothing: the schedule says it.
  std::optional<int> multiprocessors{};
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
/// After the event's instance of the iteration `distance` before this one, where that is below
/// `until`: what comes later waits for it no more.
struct Await {
  EventId event;
  std::uint32_t distance = 0;
  std::optional<std::uint32_t> until{};

  /// The instance that the operation of an iteration waits for; nothing: none.
  std::optional<std::uint32_t> instance(std::uint32_t iteration) const {
    if (iteration < distance || (until && iteration - distance >= *until)) return std::nullopt;
    return iteration - distance;
  }
};

/// Role of an operation to a parameter server's clock. The trace derives staleness from it, and
/// which gradients are in an update that waits for several (`gather_gradient`).
enum class UpdateRole : std::uint8_t { none, read_parameters, gather_gradient, apply_update };

/// Purpose of an operation, for breakdowns and colours.
enum class Phase : std::uint8_t {
  forward,
  backward,
  optimizer,
  communication,
  host,
  loading,  ///< of batches, by the host or by workers
  server
};

/// Action of an operation. `none`: its text alone says it.
enum class Verb : std::uint8_t {
  none,
  forward,
  backward,
  backward_input,   ///< gradients of activations alone
  backward_weight,  ///< gradients of parameters alone
  recompute,
  optimizer,
  unscale,  ///< gradients of a scaled loss
  clip,     ///< gradients, to a norm
  launch,
  load,  ///< a batch, from where samples are kept
  wait_for,
  copy,
  copy_to_gpu,
  copy_to_host,
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  send_recv,
  reduce,
  all_to_all,
  pull,
  push,
  pack,
  unpack,
  serve,
  take_in,
  apply,
  update
};
std::string to_string(Verb verb);  ///< "forward", "backward (input)", "copy to GPU"
Verb verb_of(CollectiveKind kind);

struct Op {
  Verb verb = Verb::none;
  Verb pass = Verb::none;        ///< that it launches, or exchanges something of
  std::string of{};              ///< "layer3.0", "bucket 2"; after no verb the whole text
  std::optional<Bytes> moves{};  ///< what the label says of its size
  const char* remark = "";       ///< of the label, at its end: ", updated"
  Phase phase = Phase::forward;
  std::optional<LaneId> lane{};  ///< runs in this stream's order
  /// Or is served by this queue in order of arrival; neither: runs when ready, in both cases once
  /// its own previous iteration is over.
  std::optional<QueueId> queue{};
  std::uint32_t priority = 0;  ///< in a queue by_priority: of those that wait the least goes first
  Work work = Join{};
  std::vector<After> after{};
  std::vector<Await> awaits{};
  /// Each gets one signal for this iteration when the operation ends.
  std::vector<EventId> signals{};
  /// Memory that the host takes and gives back as it issues the operation, in order.
  std::vector<TensorEvent> memory{};
  UpdateRole role = UpdateRole::none;

  /// "backward layer3.0", "launch forward layer3.0", "all_reduce bucket 2 (25.0 MiB)".
  std::string label() const;
  /// The same without its size.
  std::string title() const;
};

enum class LaneKind : std::uint8_t { compute, communication, host };
/// A stream of one rank: its operations run one at a time in program order, iteration after
/// iteration.
struct Lane {
  std::string name{};  ///< "compute", "nccl", "nccl (replicas)", "host"
  LaneKind kind = LaneKind::compute;
};

/// Operations of like ranks in one iteration. `ops` stand in the order in which the host issues
/// them, which is also the order in which memory is taken and given back. Played from `setup` on, a
/// tensor is held or not, and each iteration after the first ends with those held that it began
/// with.
struct Program {
  std::string name{};  ///< "worker", "server"
  std::vector<Lane> lanes{};
  std::vector<Op> ops{};
  std::vector<Tensor> tensors{};
  std::vector<std::string> owners{};     ///< of tensors: "layer1.0", "bucket 2"
  std::vector<TensorEvent> setup{};      ///< before the first iteration
  std::uint32_t steps = 1;               ///< training steps that an iteration holds: local SGD
  std::optional<std::uint32_t> stage{};  ///< of a pipeline, which of its ranks; nothing: of none
};

/// Ranks of a communicator, in ring order. After folding `members` are those that are simulated and
/// `ranks`, `nodes` what they stand for.
struct Group {
  std::string name{};
  std::vector<RankId> members{};
  std::size_t ranks = 0;
  std::size_t nodes = 0;
  std::optional<MeshAxis> axis{};  ///< of a layout, that its members lie along
};

/// A shared server that takes operations of any rank one at a time, in order of arrival, or the
/// least Op::priority first and in order of arrival among equals.
struct Queue {
  std::string name{};
  RankId owner{};
  bool by_priority = false;
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
  Seconds delay{};                ///< it sleeps before each iteration's first jittered Compute
  std::vector<GroupId> groups{};  ///< by the program's group slots
  /// 0: the job that is asked about. Ranks of others come after its ranks; they go on until it has
  /// ended, and are cut off then.
  std::uint32_t job = 0;

  bool in_background() const { return job > 0; }
};

/// The spread of compute times: every (rank, training step) draws one factor of mean 1; where it
/// was measured, one of median 1, and so does every operation of every rank.
struct Jitter {
  enum class Distribution { none, lognormal, exponential, measured };
  Distribution distribution = Distribution::none;
  /// Standard deviation over mean. Of an exponential, which is 1 - cv and an exponential draw of
  /// mean cv: 0 to 1.
  double cv = 0;
  /// Compute::spread of operations whose own is less (measured).
  double least_spread = 0;
  /// Standard deviation of ln of a (rank, training step)'s factor (measured).
  double drift = 0;
};

/// Stops of ranks, each at its own time: Python collects garbage, the host does something else.
struct Interruptions {
  Seconds every{0};  ///< of a rank's computing, between two of its stops; 0: none
  Seconds time{0};   ///< of each

  bool any() const { return every > Seconds(0) && time > Seconds(0); }
};

/// Every rank that a folded schedule's stand for, where jitter makes ranks differ. Position i is a
/// node; the kept nodes stand first, and kept node a stands for the positions a, a + 2, a + 4, ...
struct Crowd {
  std::vector<std::uint32_t> nodes{};  ///< by position: its index before folding
  std::size_t ranks_per_node = 0;
  /// Indices that each position's ranks had before folding, by position; empty: consecutive ranks
  /// of the node. A layout's positions are replicas of the model, or as many of them as share
  /// nodes.
  std::vector<std::uint32_t> ranks{};
  /// RankSpec::slowdown of all ranks, position by position; what kept ranks say themselves counts.
  std::vector<double> slowdowns{};
};

/// A training run as plain data: what runs on which lane after what, for `iterations` rounds.
struct Schedule {
  std::vector<Program> programs;
  std::vector<RankSpec> ranks;
  std::vector<Group> groups;
  std::vector<Queue> queues;
  std::vector<Event> events;
  std::uint32_t iterations = 1;
  /// Whose gradients an iteration adds up, of all ranks together: those that are folded away count.
  double samples_per_iteration = 0;
  /// Replicas of the model that take steps of their own (local SGD): so many equal runs of
  /// consecutive ranks.
  std::size_t replicas = 1;
  /// Number of first iterations whose gradients are averaged into one update each, at a server to
  /// which workers apply.
  std::uint32_t warmup_rounds = 0;
  /// Number of ranks with a GPU, drawn anew, that take part in each iteration: what the others
  /// would do takes no time and signals nothing. 0: all do.
  std::uint32_t sampled_ranks = 0;
  Jitter jitter;
  /// A folded schedule's ranks are stopped as often as all that they stand for.
  Interruptions interruptions;
  /// Mesh of a layout: its ranks are numbered by it.
  std::optional<Mesh> mesh;
  /// A folded schedule's, if it has jitter (factors.hpp).
  std::optional<Crowd> crowd;
  std::uint64_t seed = 1;
  /// Compute on a rank takes this many times longer while one of its collectives or transfers is in
  /// flight, and they take no longer for it. Nothing: as the calibrated costs say of each
  /// collective, both ways, and beside transfers no longer.
  std::optional<double> overlap_slowdown;
  /// True if compute takes longer beside a collective of NCCL by the multiprocessors that its
  /// channels take, whatever was measured. It counts where nothing is said above. Beside transfers
  /// compute takes no longer.
  bool channels_slow_compute = false;
  /// d ln(step) / d ln(time of the host's launches) of the GPU that waits for them most, over hosts
  /// a little faster and slower; 0: no GPU waits, nor would it for those of a slower host.
  double host_share = 0;

  const Program& program_of(RankId rank) const {
    return programs[ranks[rank.index()].program.index()];
  }
};

bool on_compute_lane(const Program& program, const Op& op);
/// The ranks that train: their program has forward, backward or optimizer work on a compute lane.
std::vector<RankId> computing_ranks(const Schedule& schedule);
/// True if some operation reads or updates a parameter server's parameters.
bool has_parameter_server(const Schedule& schedule);

/// InternalError unless: every id is in range; lane order plus same-iteration edges is acyclic
/// within each program; no edge of distance 0 points to a later event of itself; every group issues
/// its collectives in one order on all members.
void validate(const Schedule& schedule);

/// Keeps the ranks of two nodes (of one if there is but one), which stand for all: same schedule,
/// same byte and step counts, fewer ranks. Of a layout it keeps two replicas of the model (as many
/// as share the nodes of two), and of a tensor group on one node a rank that stands for all. Where
/// ranks differ in speed the kept nodes are the slowest of the even and of the odd ones; where they
/// have jitter, the schedule has a crowd.
///
/// Nothing, with the reason in `why_not`, if ranks are not alike (several programs, delays, node
/// groups; measured jitter; queues; groups that two nodes cannot stand for) or share more than
/// their NICs (the cores of one machine; a fabric other than a star or a non-blocking fat-tree; on
/// the latter, trees and several NICs on one route) or share those unevenly (trees on NICs with a
/// burst).
struct Folded {
  Schedule schedule;
  Cluster cluster;
};
std::optional<Folded> fold(const Schedule& schedule, const Cluster& cluster, std::string& why_not);

}  // namespace rehearse::inline schedule
