#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/quantity.hpp"
#include "convergence/mitigation.hpp"
#include "schedule/schedule.hpp"

namespace rehearse::inline strategy {

/// How pseudo-gradients travel; none: as parameters are stored.
enum class OuterCompression { none, bf16, int8, int4 };

/// A parameter server with bounded staleness s: a worker's iteration k starts after every worker's
/// iteration k-s-1 is applied. 0: synchronous (BSP), unbounded: asynchronous (ASP), between: SSP
/// (Ho et al. 2013).
struct ParameterServer {
  int servers = 1;
  std::string server_host{};  ///< a node group's name, or "worker": on the CPUs of the workers' own
                              ///< nodes; empty: a group without GPUs if there is one, else "worker"
  std::optional<std::uint32_t> staleness = 0;  ///< nothing: unbounded
  int backup_workers = 0;  ///< of the workers, the last this many gradients of an iteration are
                           ///< dropped (staleness 0 only; Chen et al. 2016)
  /// Of gradient bytes into parameters, one server, the optimizer's step on them included. Nothing:
  /// as its host's memory and cores allow (server_host.hpp).
  std::optional<BytesPerSecond> apply_rate{};
  /// Who a worker is without a layout: every GPU; or every node, whose GPUs sum their gradients (a
  /// reduce_scatter) before its first GPU sends them once, and share what that receives (an
  /// all_gather). So do MXNet's kvstore and BytePS. A node's update counts once: staleness,
  /// backup_workers and the clocks of bounded workers are of nodes then.
  enum class Aggregate { none, node };
  Aggregate aggregate = Aggregate::none;
  /// Bytes of messages that the CPU of a worker, or of a server, gets through per second, each way:
  /// serialization, copies, the network's stack. A worker's come before a push and after a pull,
  /// for each server beside the others; a server's wait in its queue. Nothing: they take no time.
  std::optional<BytesPerSecond> worker_cpu_rate{}, server_cpu_rate{};
  bool usual_worker_cpu = false, usual_server_cpu = false;  ///< taken where nobody said them
  double messages_error = 0;  ///< half-width of the 90 % interval of ln(time) of these
  /// Whose server it is: one of platforms/servers.yaml, which has the rates where nobody says them.
  std::string server = "ours";
  /// CPU time of each tensor's message beside its bytes, of worker and server. Nothing: as `server`
  /// has it.
  std::optional<Seconds> per_message{};
  /// Like servers, each on a node of its own, that one is played for (one_for_like_servers()).
  int stands_for = 1;
  enum class Partition {
    size,
    unit
  };  ///< parameters split evenly by bytes, or whole units in turn
  Partition partition = Partition::size;
  /// Where it is given: units in slices of at most so many bytes, to the servers in turn.
  std::optional<Bytes> slice{};
  bool layerwise = false;  ///< pull and push each unit on its own, overlapping compute
  /// Which message a worker and a server exchange next: the one that has waited longest, or the one
  /// of the unit nearest to the input, which the next forward needs first (P3: Jayarajan et al.,
  /// MLSys 2019; ByteScheduler: Peng et al., SOSP 2019). `priority` needs `layerwise`.
  enum class Scheduling { fifo, priority };
  /// How a worker's pull comes behind its own push. `own_request`: it is sent once the push is
  /// acknowledged, and waits in the server's queue behind what came meanwhile (ps-lite's one
  /// thread; MXNet's kvstore_dist and BytePS send it so). `behind_push`: it is sent with the push,
  /// and answered before the server takes in what others sent (calibrate/server). Felt where the
  /// server is waited for and is not synchronous.
  enum class Protocol { own_request, behind_push };
  Protocol protocol = Protocol::own_request;
  Scheduling scheduling = Scheduling::fifo;
  /// Bounded or asynchronous: after so many synchronous rounds, in which all gradients are
  /// averaged.
  int warmup_rounds = 0;
  /// Bounded or asynchronous: share of the training's samples that all workers do in step before
  /// (Sync-Switch: Li et al., ICDCS 2021), with a rate in proportion to their batch. What is played
  /// is the part after it.
  double switch_share = 0;
  /// Above 1: local SGD. A worker takes so many steps of its own between its pull and its push, and
  /// sends how far they led; a synchronous server averages that (FedAvg: McMahan et al.,
  /// "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017).
  /// The optimizer of these steps begins anew with each pull, as FedAvg's clients and the workers
  /// of asynchronous DiLoCo do (inner_loop of github.com/google-deepmind/asyncdiloco).
  int local_steps = 1;
  /// With local steps: what the server makes of each pseudo-gradient that comes, or of a round's
  /// mean.
  std::optional<OuterSgd> outer{};
  OuterCompression compression = OuterCompression::none;  ///< of pseudo-gradients on their way
  /// Synchronous: in each round only so many of the workers, drawn anew, take part (FedAvg's C); 0:
  /// all.
  int sampled_workers = 0;
};

/// Local SGD without a server: a replica takes `period` steps of its own, then all average their
/// parameters by one all_reduce of them (PyTorch's PeriodicModelAverager; Stich, "Local SGD
/// converges fast and communicates little", ICLR 2019). With an outer optimizer it is DiLoCo
/// (Douillard et al. 2023), in fragments Streaming DiLoCo (Douillard et al. 2025). An iteration of
/// the schedule is one period.
struct LocalSgd {
  int period = 1;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::automatic;
  /// So many runs of consecutive ranks; 0: a GPU each where it is Alone, else a site or a node.
  int replicas = 0;
  std::optional<OuterSgd> outer{};
  OuterCompression compression = OuterCompression::none;  ///< of pseudo-gradients on their way
  int fragments = 1;      ///< equal parts of the parameters, each with its own turn in a period
  int overlap_steps = 0;  ///< steps between what a fragment sends and what it makes of the mean
};

}  // namespace rehearse::inline strategy
