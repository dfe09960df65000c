#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convergence/convergence_model.hpp"
#include "convergence/rate_course.hpp"
#include "convergence/training_match.hpp"
#include "cost/cost.hpp"
#include "cost/given_times.hpp"
#include "cost/whole_step.hpp"
#include "economy/options.hpp"
#include "memory/caching_allocator.hpp"
#include "model/adaptation.hpp"
#include "model/recomputation.hpp"
#include "model/transformer.hpp"
#include "profile/comm_profile.hpp"
#include "strategy/strategy.hpp"

namespace rehearse::inline convergence {
struct LossCost;
}

namespace rehearse::inline scenario {

/// How faithfully the network is played; `automatic` folds like ranks of large schedules (above 64
/// ranks, or a million operations), else flow.
enum class FidelityChoice { automatic, hop, flow, folded };
std::string to_string(FidelityChoice choice);

/// How long the training is: what turns a step into an epoch and a whole run.
struct Train {
  std::optional<std::int64_t> samples_per_epoch;
  std::optional<double> epochs;
  std::optional<std::int64_t> steps;  ///< of the optimizer, in the place of both
  Market market = Market::on_demand;
  /// What it comes to in loss: the length follows from it, or leaves it out; nothing: nobody knows.
  std::shared_ptr<const LossCost> loss{};
};

/// Slows one rank down, always.
struct Straggler {
  std::size_t rank = 0;
  double slowdown = 1;
  Seconds delay;  ///< that it sleeps in every step
};

/// Runs of which the one with the median step time is the prediction. Their jitter is drawn from
/// run.seed and the following.
struct Replications {
  std::uint32_t at_least = 1, at_most = 1;
  /// More than `at_least` are run until the median is known that well: the half-width of its 90 %
  /// interval, relative.
  double precision = 0;

  bool several() const { return at_most > 1; }
};

/// How long an asynchronous server's workers train; others always do run.steps.
enum class RunUntil {
  steady,  ///< run.steps at least, until throughput and staleness are known: a longer training
  steps,   ///< each does run.steps and then no more: a real run of that length
};

/// PyTorch's DataLoader, in each process that trains.
struct DataLoading {
  Seconds sample;           ///< that one worker takes for one: reading, decoding, augmenting
  int workers = 0;          ///< num_workers; 0: the process loads where it needs a batch
  int prefetch_factor = 2;  ///< batches that each worker is ahead
};

struct RunOptions {
  std::uint32_t steps = 10;  ///< measured iterations, or the fewest
  RunUntil until = RunUntil::steady;
  /// True: all micro-batches are played; else until they are steady, and the rest follows from
  /// these.
  bool play_all = false;
  std::uint32_t warmup_steps = 2;  ///< simulated before them, not measured
  std::uint64_t seed = 1;
  Replications replications;
  FidelityChoice fidelity = FidelityChoice::automatic;
  Jitter jitter;
  Interruptions interruptions;
  std::vector<Straggler> stragglers;
  /// Spread of the speed of GPUs that are nominally alike, for good: spread_slowdowns. 0: they are
  /// alike.
  double speed_spread = 0;
  /// True if nothing is said of the one or the other: where there is a fleet they are
  /// kUsualFleet's.
  bool usual_spread = false, usual_jitter = false;
  bool usual_interruptions = false;  ///< the framework's, where nobody says others
  /// Slowdown of compute beside communication; nothing: as the comm profile measured it, else 1.
  std::optional<double> overlap_slowdown;
  bool channels_slow_compute = false;  ///< as Schedule's
  AnalyticEfficiency efficiency;
  std::optional<DataLoading> data_loading;  ///< nothing: batches are there
  /// optimizer.zero_grad(set_to_none=...).
  bool set_to_none = true;
};

/// Knowledge of how the model learns, for a forecast of its accuracy.
struct Convergence {
  std::shared_ptr<const ConvergenceModel> model;
  TrainingMatch curves;  ///< whose they are, and in what they differ
  double learning_rate = 0.1, momentum = 0;
  Mitigation mitigation;            ///< what changes how gradients are applied
  std::optional<double> target;     ///< an accuracy to reach, as a share
  std::vector<RateChange> rates{};  ///< how the rate changes along the training
  /// The run is simulated from its first update to its last, which all count, as in a curve; else
  /// it stands for a longer one, and what counts is what it measures while all workers train.
  bool whole_run = false;
};

struct SharedCluster;

/// One question: a model on a cluster under a strategy.
struct Scenario {
  std::string file;         ///< as the user named it
  std::string description;  ///< the optional key `description`
  Model model;
  /// Shape that `model` is made from, where it is a transformer.
  std::optional<TransformerShape> transformer;
  ModelShape shape;
  /// Share of `model` that one rank has where a layout splits its layers; null: whole layers.
  std::shared_ptr<const Model> share;
  std::int64_t batch_per_gpu = 1;
  Precision precision = Precision::fp32;
  /// Units that are recomputed in backward, by Model::units (Job::checkpointed); empty: none.
  std::vector<bool> checkpointed;
  bool early_stop = false;  ///< torch.utils.checkpoint.set_checkpoint_early_stop
  /// Blocks that each part of a pipeline recomputes, its first ones; 0: `checkpointed` says it.
  std::int64_t recomputed_layers = 0;
  bool offloads_activations = false;  ///< Job::offloads_activations
  bool trains = true;                 ///< Job::trains; else nothing is recomputed or offloaded
  Recomputation recomputation{};      ///< of parts of each block
  /// Part of the model that is trained, and how it is kept; the same holds for a rank's share of
  /// it.
  std::optional<Adaptation> adaptation{};
  Cluster cluster;  ///< the nodes that this job has
  /// The whole cluster and what else runs on it; nothing: it is this job's alone.
  std::shared_ptr<const SharedCluster> shared;
  /// Sources of the groups' costs, by Cluster::groups; nothing (or no entry): they are given or
  /// computed.
  std::vector<std::optional<CostSource>> cost_sources;
  /// Measured training of one GPU, to which its computed costs are scaled.
  std::optional<WholeStep> whole_step;
  /// Conditions that an inline model's times hold for; nothing: whatever the scenario says.
  std::optional<GivenAt> given_at;
  /// Calibrated costs of collectives; nothing: the links alone.
  std::shared_ptr<const CommProfile> comm;
  FrameworkChoice framework;  ///< whose code trains, and what the file left to it
  Strategy strategy;
  Optimizer optimizer;
  Train train;
  RunOptions run;
  /// Allocator of the GPUs' memory.
  AllocatorSettings allocator;
  std::optional<Bytes> cuda_context;  ///< as stated; nothing: cuda_context()
  /// Whose memory; nothing: as the compute profile says (device_of).
  std::optional<TapeDevice> device;
  std::optional<Convergence> convergence;
  std::optional<EnergyOptions> energy;
  std::optional<FailureOptions> failures;
  std::optional<StartOptions> start;
  /// Every default that was taken, "strategy.ddp.bucket_cap_mb = 25".
  std::vector<std::string> assumptions;
};

/// A job that runs beside a scenario's for as long as that does.
struct OtherJob {
  Scenario scenario;
  std::vector<NodeId> nodes;  ///< of the shared cluster, in the order of its ranks
};
struct SharedCluster {
  Cluster cluster;
  std::vector<NodeId> nodes;  ///< those of the scenario's own job, in the order of its ranks
  std::vector<OtherJob> others;
};

/// Reads a scenario file with `--set` overrides applied. InputError or MissingError.
Scenario read_scenario(const std::filesystem::path& file,
                       const std::vector<std::string>& overrides);
/// The same for a document that is already there.
Scenario read_scenario(const Document& document);

/// Names a scope as `run.efficiency.cuda_graph_scope` does: "moe_router".
std::string graph_scope_name(GraphScope scope);

/// The device that `memory.device` says, else CPUs where a compute profile was measured without
/// CUDA, else GPUs.
TapeDevice device_of(const Scenario& scenario);

/// The model that a rank computes: `model`, or its share of each layer.
const Model& computed_model(const Scenario& scenario);
/// Job::stops_early: early_stop, and no checkpoints by use_reentrant=True.
bool stops_early(const Scenario& scenario);

/// The same, where a router with an auxiliary loss chooses experts (natural_imbalance()); nothing
/// where no rank gets another's tokens, or somebody says how they are spread.
std::optional<Scenario> with_natural_routing(const Scenario& scenario);

/// The precision that its units compute in: its own, but for what its strategy changes
/// (computes_in).
Precision compute_precision(const Scenario& scenario);

/// Samples of the whole training, where its length is said; `per_iteration` as
/// Schedule::samples_per_iteration.
std::optional<double> training_samples(const Scenario& scenario, double per_iteration);

/// Costs of one step by Cluster::groups; empty for a group without GPUs.
std::vector<StepCosts> group_costs(const Scenario& scenario);

/// The scenario's schedule: build_schedule with the scenario's run options (iterations, seed,
/// jitter, stragglers, spread of speeds) put in.
Schedule make_schedule(const Scenario& scenario);

}  // namespace rehearse::inline scenario
