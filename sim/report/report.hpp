#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ends.hpp"
#include "collective/collective_cost.hpp"
#include "convergence/loss_cost.hpp"
#include "convergence/staleness_histogram.hpp"
#include "convergence/strategy_forecast.hpp"
#include "memory/memory.hpp"
#include "report/acting.hpp"
#include "report/work.hpp"
#include "scenario/scenario.hpp"
#include "schedule/other_jobs.hpp"
#include "trace/trace.hpp"

namespace rehearse::inline report {

/// Mean over the recorded ranks that compute, of one step. compute + exposed + idle = the step.
struct Breakdown {
  Seconds compute;
  Seconds exposed_communication;  ///< a collective or transfer is in flight and the rank computes
                                  ///< nothing
  Seconds hidden_communication;   ///< in flight while it computes
  Seconds idle;                   ///< neither (waiting for peers, for a server, for the host)
};

struct KeyBounds {
  std::string key;      ///< the number's in `rehearse.report/1`: "step_time_s", "staleness.mean"
  Ends<double> bounds;  ///< the 90 % interval's, in its unit
};

/// Figures that a run's other ones follow from.
struct Headline {
  Seconds step_time;
  double samples_per_s = 0;
  std::optional<double> staleness;            ///< the mean
  std::optional<Seconds> worker_step_time{};  ///< Report::worker_step_time
};
/// One source of error: the run simulated with it at both ends of its 90 % interval, and, over the
/// same iterations, at its best guess.
struct ErrorSource {
  std::string name;  ///< "compute", "communication"
  Headline low, best, high;
};

/// A part of a prediction whose error is known on its own, as platforms/intervals.yaml names it.
struct Mechanism {
  std::string name;  ///< "matrix products, carried over"
  double share = 0;  ///< d ln(step time) / d ln(its own time), or of bytes
  double error = 0;  ///< half-width of the 90 % interval of ln(its own time), or of ln(its bytes)
  /// Of communication: what all of it takes, also beside compute, over the step time, at the upper
  /// end of its own interval.
  std::optional<double> whole = {};

  double width() const { return share * error; }  ///< half-width in ln(step time), in ln(bytes)
  /// The step over its best estimate at the upper end: communication may no longer be hidden.
  double upper() const { return std::max(std::exp(width()), whole.value_or(0)); }
};

/// What the errors of a GPU's memory come from, the widest first.
struct MemoryMechanisms {
  std::vector<Mechanism> allocated;  ///< of the peak of what is allocated
  std::vector<Mechanism> used;       ///< of all that is taken of the GPU
};

/// Memory of one kind of rank, in short.
struct ProgramMemory {
  std::string name;      ///< the program's: "worker", "server"
  std::size_t rank = 0;  ///< the first of them
  Bytes allocated_peak;
  std::optional<Bytes> reserved_peak;
  bool fits = true;
};

/// One change of a scenario under which it takes less memory, and its price.
struct FittingChange {
  std::string change;             ///< "FSDP full_shard"
  std::string set;                ///< for a shell: "--set 'strategy={fsdp: {}}'"
  bool changes_training = false;  ///< other numbers come out: precision, global batch, optimizer
  bool at_risk = false;           ///< its interval reaches beyond the GPU's memory
  Bytes allocated_peak;
  std::optional<Bytes> reserved_peak;
  Bytes used;  ///< MemoryReport::used()
  Seconds step_time;
  double samples_per_s = 0;
  double price = 0;  ///< more time for a sample: 0.1 is 10 % slower training
};

/// Memory of the GPU with the least room left.
struct MemoryReport {
  Bytes allocated_peak;
  std::optional<Bytes> reserved_peak;  ///< nothing on a CPU
  MemoryUse at_peak;
  std::string peak_at;              ///< label of the operation
  std::vector<MemoryShare> shares;  ///< the largest of what is held then, by unit and kind
  Bytes context;                    ///< outside the allocator
  Bytes communicators;              ///< NCCL's buffers, outside the allocator, too
  Bytes capacity;                   ///< the GPU's; 0 if the cluster names none
  bool fits = true;
  std::optional<OutOfMemory> out_of_memory;  ///< where it does not fit, and what PyTorch says
  std::int64_t alloc_retries = 0;            ///< cudaMallocs that had to release the cache first
  std::vector<ProgramMemory> programs;       ///< all kinds of ranks, that with the least room first

  /// Memory that the allocator holds and no tensor does, at the peaks.
  Bytes fragmentation() const { return reserved_peak.value_or(allocated_peak) - allocated_peak; }
  /// All that is taken of the GPU.
  Bytes used() const { return reserved_peak.value_or(allocated_peak) + context + communicators; }
  /// Nothing: not even 1, or the batch cannot vary (times given).
  std::optional<std::int64_t> largest_batch_per_gpu;
  /// Single changes that fit; nothing: not looked for. First those that are safe, then those at
  /// risk, last those that change the training; of each the cheapest first.
  std::optional<std::vector<FittingChange>> would_fit;
};

/// Staleness of every update after the warm-up (DESIGN's definition: updates applied between the
/// pull that its gradient was computed from and its own application).
struct StalenessReport {
  double mean = 0;
  std::uint32_t p50 = 0, p99 = 0, max = 0;
  StalenessHistogram histogram;
  /// Mean number of others' updates between a worker's push and its next pull, as its server's
  /// protocol lets them pass; nothing: workers are in step.
  std::optional<double> between_push_and_pull{};
};

/// How well an asynchronous run's long run is known.
struct SteadyReport {
  bool reached = false;  ///< throughput and staleness are known to kSteadyPrecision
  Seconds begin, end;    ///< the simulated time that they are taken from
  double slowest = 0;    ///< iterations of the slowest worker in it
  /// Half-widths of 90 % intervals: of the throughput, relative, and of the mean staleness.
  double throughput_error = 0, staleness_error = 0;
};

/// Money by what it was spent on.
struct CostParts {
  double training = 0;  ///< nodes, while they train towards the end
  double failures = 0;  ///< nodes, while checkpoints, lost work and recoveries hold them up; spares
  double start = 0;     ///< nodes that wait for others
  double energy = 0;    ///< beside the nodes' price
};

/// Cost of the whole training, with its failures and its start where the scenario has them.
struct CostReport {
  double gpu_hours = 0;
  std::optional<double> usd{};
  std::optional<CostParts> usd_by_part{};  ///< their sum is `usd`
  std::optional<double> energy_kwh{}, co2_kg{};
  /// Which prices of a node these are, and of which date; see price_words(). Without `usd` some
  /// nodes have none.
  std::vector<std::string> prices{};
};

/// Energy of a step, with the building's share (PUE).
struct EnergyReport {
  double power_w = 0;                         ///< the whole cluster's, mean over a step
  double gpus_w = 0, hosts_w = 0, pue_w = 0;  ///< its parts
  double step_j = 0;
};

/// How much of its time the job trains: in expectation over failures.
struct GoodputReport {
  double share = 1;  ///< train_time_s / expected_time_s
  Seconds expected_time{};
  Ends<Seconds> expected_time_spread{};  ///< 5th to 95th percentile, by chance of failures alone
  Seconds checkpoint_interval{}, checkpoint_write{};
  Seconds young{}, daly{};  ///< estimates of the best interval; infinite: no checkpoint
  Seconds job_mtbf{};       ///< mean time between failures of the whole job
  double failures = 0, checkpoints = 0;
  /// Parts of the expected time, beside the training itself.
  Seconds checkpoint_time{}, lost{}, recovery{}, waiting{}, slower{}, start{};
  bool exact = false;  ///< a closed form; else the mean of `trainings`
  std::int64_t trainings = 0;
};

/// Effect of waiting for nodes at the start.
struct StartReport {
  bool elastic = false;
  Seconds first_step{}, all_there{};
  Ends<Seconds> all_there_spread{};  ///< 5th to 95th percentile
  Seconds delay{};                   ///< by which training ends later
  double samples_meanwhile = 0;
};

/// A job that ran beside this one on the same cluster.
struct OtherJobReport {
  std::string model, strategy;
  std::vector<std::size_t> nodes;    ///< their places in the shared cluster
  std::size_t steps = 0;             ///< whole ones, of its slowest rank, while this job ran
  std::optional<Seconds> step_time;  ///< mean between the ends of its steps; of two steps and more
};

/// Collectives of an iteration that are alike, each for itself.
struct CollectiveReport {
  std::string kind;  ///< "all_reduce"
  int ranks = 0, nodes = 0;
  Bytes size;             ///< as nccl-tests counts it
  std::size_t count = 0;  ///< that a rank takes part in
  std::string algorithm, protocol;
  std::string answered_by;  ///< "NCCL model" (CostBasis)
  std::string outside;      ///< why no measurement answers as it is
  Seconds time;
  Ends<Seconds> interval;  ///< 90 %
  BytesPerSecond busbw{0};
};
/// In the order in which they are issued first.
std::vector<CollectiveReport> collective_reports(const std::vector<CollectiveAnswer>& answers);
/// The mean step of a pipeline's first rank with this stage. Its parts and its exposed
/// communication add up to the step.
struct StageReport {
  std::uint32_t stage = 0;
  std::size_t rank = 0;
  Seconds compute;
  /// A collective is in flight and the rank computes nothing, by the axis of its group; of several
  /// at once by the first of them in the order of MeshAxis.
  std::map<MeshAxis, Seconds> exposed{};
  /// Neither: before the first backward, after the last forward, and between.
  Seconds warm_up, cool_down, steady;

  Seconds bubble() const { return warm_up + steady + cool_down; }
};

/// Time of one family of kernels in a micro-batch of all units, or of one unit; the optimizer's
/// of a step over the parameters that a rank updates.
struct FamilyReport {
  CostFamily family = CostFamily::products;
  CostGround ground = CostGround::analytic;
  std::string from{};
  std::optional<double> off{};  ///< as FamilyGround
  Seconds forward{}, backward{};
  Seconds within{};     ///< part of both at sizes that were measured
  double farthest = 0;  ///< as CostPart

  Seconds total() const { return forward + backward; }
};
/// Units in a row that take the same.
struct UnitReport {
  std::string first, last;
  std::size_t count = 1;
  Seconds forward{}, backward{};                         ///< one unit's
  std::vector<std::pair<CostGround, double>> grounds{};  ///< the ground of each share of it
  double within_measured = 0;                            ///< the share at sizes that were measured
  double farthest = 0;                                   ///< as CostPart
};
/// Where the compute costs on one kind of GPU come from.
struct ComputeReport {
  std::string gpu;
  std::vector<FamilyReport> families;  ///< the longest first
  std::vector<UnitReport> units;
};

/// Threads that compute on the cores of one machine, and how long they wait for one.
struct CoresReport {
  int threads = 1, cores = 1;
  /// A rank's thread stands ready for so long of a step while others have the cores, as played;
  /// nothing: nodes share no cores.
  std::optional<Seconds> ready{};
  /// The same of the recorded run's step (Cluster::RunQueue).
  std::optional<Seconds> recorded_ready{}, recorded_step{};

  bool oversubscribed() const { return threads > cores; }
};

/// A network, whatever it runs on.
struct ArchitectureReport {
  std::string family;  ///< Hugging Face's model_type, or the built-in network's name; may be empty
  std::int64_t layers = 0;  ///< blocks of a transformer, else units
  std::int64_t parameters = 0, active_parameters = 0, trainable_parameters = 0;
  std::optional<double> flops_forward;  ///< one sample's; nothing where times are given
};
ArchitectureReport architecture_of(const Model& model);

/// Everything `rehearse run` answers; each view (terminal, JSON, CSV) shows these same numbers.
struct Report {
  std::string scenario;
  std::string description;
  std::string model, cluster, strategy, precision;
  /// MixedPrecision's param_dtype, what units are gathered and compute in, where it is said.
  std::optional<std::string> param_dtype{};
  FrameworkChoice framework;
  ArchitectureReport architecture;
  std::int64_t batch_per_gpu = 0;
  std::int64_t global_batch = 0;  ///< samples per step of all workers
  std::size_t ranks = 0, nodes = 0;
  WorkKind work = WorkKind::one_gpu;
  std::string fidelity;  ///< "hop", "flow", "folded (16 of 4096 ranks simulated)"

  /// Mean of the measured steps; of a parameter server what one global batch takes.
  Seconds step_time;
  /// In an asynchronous run: the mean of each worker's own iterations, and the mean of these.
  std::optional<Seconds> worker_step_time;
  std::vector<Seconds> worker_step_times{};  ///< in order of the ranks that compute
  std::optional<SteadyReport> steady;        ///< nothing where ranks end after run.steps
  /// 5th to 95th percentile of the simulated steps (of workers' own iterations), one by one.
  Ends<Seconds> step_time_spread;
  double samples_per_s = 0;
  /// For networks that take tokens: all of a sample's, and per GPU that trains.
  std::optional<double> tokens_per_s, tokens_per_s_per_gpu;
  /// Model FLOPs (of the products of forward and backward, all pairs of attention, nothing twice)
  /// per second and GPU, in 1e12, as Megatron-LM's logs have it; nothing where times are given.
  std::optional<double> model_tflops_per_gpu;
  std::optional<Seconds> epoch_time, train_time;
  Breakdown breakdown;
  double gpu_utilization = 0;  ///< compute share of the step
  /// Model FLOPs, of attention those of pairs that masks leave, over the GPUs' peak FLOPs (peak_for
  /// in cost/peak.hpp: each operator at the peak of its format; node.speed times that), so never
  /// above 1; nothing where times are given.
  std::optional<double> mfu;
  /// The same with all pairs of attention, as model_tflops_per_gpu counts.
  std::optional<double> mfu_all_pairs;
  /// The same with the forward passes that checkpointed units repeat (PaLM, appendix B).
  std::optional<double> hfu;

  std::vector<StageReport> stages;  ///< a layout's pipeline's, in order; empty: it has none
  std::optional<MemoryReport> memory;
  std::optional<StalenessReport> staleness;
  std::optional<StrategyForecast> accuracy;  ///< where the scenario says how the model learns
  std::string accuracy_from;  ///< whose curves say it: "small_cnn on mnist"; empty: no accuracy
  /// How tokens fall on the ranks of a layer's experts, where nobody says it: "even".
  std::optional<std::string> routing_taken{};
  /// Mechanisms of libraries that act in it; nothing: none does.
  std::optional<std::vector<ActingMechanism>> acting{};
  std::optional<LossCost> loss{};  ///< what the training's length comes to, where that is known
  std::optional<CostReport> cost;
  std::optional<EnergyReport> energy;    ///< where the scenario asks for it
  std::optional<GoodputReport> goodput;  ///< where it tells of failures, or of a start
  std::optional<StartReport> start;

  /// 90 % intervals of the numbers above that a real run of this length would report (medians and
  /// means, not single steps), in their order.
  std::vector<KeyBounds> intervals;
  /// What the interval of the step time consists of, the widest first; empty: both ends of what may
  /// be off were simulated.
  std::vector<Mechanism> mechanisms;
  MemoryMechanisms memory_mechanisms;

  std::vector<CollectiveReport> collectives;
  std::vector<ComputeReport> compute;

  std::optional<CoresReport> cores{};  ///< where the cluster says how many there are

  std::vector<OtherJobReport> other_jobs;
  /// Time that a step would take if the other jobs did not run.
  std::optional<Seconds> step_time_alone;

  std::string bottleneck;  ///< one sentence
  std::string provenance;  ///< "compute: fitted kernels; communication: links"
  std::vector<std::string> outside_calibration;
  std::vector<std::string> assumptions;
  std::uint64_t seed = 1;          ///< this run's
  std::uint32_t replications = 1;  ///< runs of which it is the median one
  /// Half-width of the 90 % interval of their median step time, relative; of five and more.
  std::optional<double> replications_error;
  std::map<std::string, std::string> versions;  ///< rehearse, simgrid
};

}  // namespace rehearse::inline report
