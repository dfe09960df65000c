#pragma once

#include <optional>
#include <set>
#include <vector>

#include "config/document.hpp"
#include "cost/cost_source.hpp"
#include "scenario/scenario.hpp"
#include "schedule/other_jobs.hpp"

namespace rehearse::inline scenario {

/// The sections of a scenario file; each reads one key's value strictly and throws InputError at
/// its place.

/// `model: {use: resnet50, batch_per_gpu: 64, ...}`, `model: {profile: FILE.yaml, ...}` or an
/// inline model: fills model, batch and precision, says in `assumptions` which shape an
/// architecture took by itself, and returns where its costs are wanted from.
/// Kernels and experts are the framework's where the section does not say them.
CostChoice read_model_section(const Value& value, Framework& framework, Scenario& scenario,
                              ProfileLibrary& library);

/// Sources of the GPUs' costs, by the cluster's groups.
std::vector<std::optional<CostSource>> find_cost_sources(const Scenario& scenario,
                                                         const CostChoice& choice,
                                                         ProfileLibrary& library);

/// Takes kUsualFleet where nothing is said of how GPUs differ.
void take_usual_fleet(Scenario& scenario);
/// Takes the usual times of servers' messages where nobody says them. Where sockets were measured,
/// so was what hosts do.
void take_usual_messages(Scenario& scenario);
/// The job that the strategy builds a schedule from, on all of the cluster or a part of it. Both
/// arguments outlive what comes back.
Job job_of(const Scenario& scenario, const Cluster& cluster);

/// `jobs: {nodes: [0, 2], others: [{nodes: [1, 3], model: ..., strategy: ..., optimizer: ...}]}`:
/// which of the cluster's nodes this job has, and what runs on others at the same time; what
/// another job does not say is as this one's.
class JobsSection {
 public:
  /// Leaves the scenario's cluster with this job's nodes.
  JobsSection(const Value& value, Scenario& scenario);
  /// Reads the other jobs once the scenario is read, with where its costs are wanted from;
  /// `strategy` is its own section.
  void read_others(Scenario& scenario, const CostChoice& choice, const Value& strategy,
                   const Framework& framework, ProfileLibrary& library);

 private:
  std::vector<NodeId> read_nodes(Map& map);
  OtherJob read_other(const Value& value, const Scenario& scenario, const CostChoice& choice,
                      const Value& strategy, const Framework& framework, ProfileLibrary& library);

  Map map_;
  SharedCluster shared_;
  std::set<NodeId> taken_;
};

/// `optimizer: {adamw: {fused: true, state_dtype: bf16}}` of parameters of that precision.
Optimizer read_optimizer_section(const Value& value, Framework& framework, Precision precision);
/// Checks that the model and the strategy have what Muon and a step in backward ask for.
void check_optimizer(const Value& value, const Scenario& scenario);
/// Where the file does not say whether gradients are clipped: as the framework does.
void apply_clipping(Framework& framework, Scenario& scenario);
/// Where the file does not say whether the loss is scaled: as the precision asks.
void apply_grad_scaler(Scenario& scenario);

/// InputError where the precision is FP8's and a GPU or the model has nothing that computes in it.
void check_narrow(const Value& model, const Scenario& scenario);
/// InputError where weights are kept in 8 bits that none multiply in.
void check_kept_narrow(const Value& strategy, const Scenario& scenario);
/// Lines that say what is 16-bit in a run and what is not, one each; none for fp32 all through.
std::vector<std::string> numeric_formats(const Scenario& scenario);

/// `train: {samples_per_epoch: 50000, epochs: 10, market: spot}`.
Train read_train_section(const Value& value);

/// `run: {...}`; `ranks` bounds what stragglers and steps may say. A comm profile (or null) that
/// measured overlap is the default of overlap_slowdown.
RunOptions read_run_section(const Value& value, std::size_t ranks, Framework& framework,
                            const CommProfile* comm);

/// `memory: {device: cuda | cpu, allocator: {max_split_size_mb: 128, ...}}`: whose memory (a CPU
/// has no caching allocator), and PYTORCH_CUDA_ALLOC_CONF by its own names.
void read_memory_section(const Value& value, Scenario& scenario);

/// `activation_checkpointing: none | per_unit | selective | op | op_all | {every: 2} |
/// {units: [layer1.*]} | {layers: 1} | {modules: [core_attn]}` of a model's map. The framework says
/// what `selective` is.
void read_checkpointing(Map& map, Framework& framework, Scenario& scenario);
/// Checks that `model.activation_offload` has what it needs, once the strategy is known.
void check_activation_offload(const Value& model, const Scenario& scenario);
/// {layers: N}, once the strategy says which part of the model a rank has.
void apply_recomputed_layers(Scenario& scenario);

/// `convergence: {curves: [FILE, ...], learning_rate: 0.1, ...}`: fits the curves, whose files are
/// found from the scenario's folder. InputError where they trained another network, other data or
/// with another optimizer than `scenario`, if there is one, and nobody accepts it.
Convergence read_convergence_section(const Value& value, const Scenario* scenario);

/// `energy`, `failures`, `start` and `train.market`, as far as they are there; each is checked
/// against the cluster and strategy, which must be read.
void read_economy_sections(Map& root, Scenario& scenario);

/// The nodes that a start waits for.
int nodes_with_gpus(const Cluster& cluster);

/// Checks what a strategy asks of the cluster, the model's precision and where its costs are wanted
/// from, where the strategy's keys stand.
void check_strategy_section(const Value& value, const CostChoice& choice, const Scenario& scenario);

/// `micro_batch_size` splits what `model.batch_per_gpu` says of a replica's step.
void apply_micro_batch_size(const Value& strategy, Scenario& scenario);
/// Holds what a layout's `experts` say of their dispatch against the GPUs and the schedule.
void check_experts(const Map& map, const Strategy& strategy, const Cluster& cluster);
/// Gradients in fp32 need no conversion beside master weights. Servers get them as they are stored.
void apply_main_gradients(const Framework& framework, Scenario& scenario);
/// Checks what a layout asks of the cluster and of the model, and applies what each rank has of its
/// layers; once it is known how many micro-batches there are.
void apply_layout(const Value& strategy, const Framework& framework, Scenario& scenario);

/// Finds the split of a layout that is to be balanced, once costs are known. `job` has the layout's
/// cluster.
void apply_balance(const Value& strategy, const Job& job, Scenario& scenario);

/// A measured whole step tells about the GPU that it was measured on, and no GPU computes faster
/// than its peak. `model` is the section.
void check_whole_step(const Value& model, const Scenario& scenario);
/// The measured GPUs hold the weights and what the optimizer keeps, once it is read.
void check_whole_step_fits(const Value& model, const Scenario& scenario);
/// Where a measured step does not say of how many GPUs it is, it is of the cluster's.
void settle_whole_step(Scenario& scenario);

/// Whether units' times are given instead of computed.
bool has_given_times(const Model& model);

/// Times without `measured_at` hold for the batch, precision and GPU beside which they were
/// written. What comes from elsewhere (--set, a study's axis) makes them another question.
void check_given_times(const Value& model, const Value& cluster);

/// A number in [low, high]; `fallback` where the key is missing.
double number_within(Map& map, const std::string& key, double fallback, double low, double high);

}  // namespace rehearse::inline scenario
