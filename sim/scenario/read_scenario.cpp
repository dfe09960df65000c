// A scenario file in three steps. Its sections are read, each by itself, so that mistakes in one do
// not hide another's. What one section leaves to others is resolved. What comes of both is
// completed: costs, stages, defaults of a fleet.
#include <fmt/format.h>

#include <algorithm>

#include "base/data_folder.hpp"
#include "collective/collective_cost.hpp"
#include "config/mistakes.hpp"
#include "model/adaptation.hpp"
#include "scenario/captured_model.hpp"
#include "scenario/file_kind.hpp"
#include "scenario/loss/loss_section.hpp"
#include "scenario/named_network.hpp"
#include "scenario/sections.hpp"
#include "scenario/silent_defaults.hpp"
#include "scenario/speed_spread.hpp"
#include "scenario/token_keys.hpp"
#include "scenario/training_part.hpp"
#include "strategy/sharded_parameters.hpp"

namespace rehearse::inline scenario {
namespace {

/// Stands for a cluster that could not be read.
constexpr std::size_t kMostRanks = 1'000'000;

/// The value of a section that may be missing: then the one of a file in which it stands empty, so
/// that its defaults are recorded like any others.
Value section_or_empty(Map& root, Map& empty, const std::string& key) {
  const std::optional<Value> value = root.optional(key);
  return value ? *value : empty.require(key);
}

void append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// Spread and drift of busy cores are measured jitter.
void say_unused_spread(Scenario& scenario) {
  const auto& busy = scenario.cluster.busy_cores;
  const bool varies = busy && (busy->spread > 0 || busy->drift > 0);
  if (varies && scenario.run.jitter.distribution != Jitter::Distribution::measured)
    scenario.assumptions.emplace_back(
        "cluster.busy_cores: spread and drift count with run.jitter: measured alone");
}

/// Messages get a head start over sockets.
void say_unused_head_start(Scenario& scenario) {
  const bool over_sockets = scenario.comm && scenario.comm->transport;
  if (scenario.cluster.head_start != kHeadStart && !over_sockets)
    scenario.assumptions.emplace_back(
        "cluster.head_start: without effect, as no profile has a transport over sockets");
}

void check_replications(const Document& document, const RunOptions& run) {
  if (!run.replications.several() || run.jitter.distribution != Jitter::Distribution::none) return;
  Map run_section = document.root().as_map().require("run").as_map();
  run_section.require("replications")
      .fail("without jitter every run is the same", "add run.jitter, or leave this out");
}

/// Once costs are known.
void balance_stages(const Value& strategy, Scenario& scenario) {
  const auto& layout = scenario.strategy.layout;
  if (!layout || layout->balance == Layout::Balance::none) return;
  const Cluster cluster = cluster_of_replica(scenario.strategy, scenario.cluster);
  Scenario unscaled = scenario;
  unscaled.whole_step.reset();  // it scales all parts alike
  Job job = job_of(unscaled, cluster);
  std::vector<StepCosts> costs;
  for (const std::size_t group : groups_of_replica(scenario.strategy, scenario.cluster))
    costs.push_back(job.costs[group]);
  job.costs = std::move(costs);
  apply_balance(strategy, job, scenario);
  apply_recomputed_layers(scenario);
}

class ScenarioReader {
 public:
  /// `generates`: what `rl:` says is somebody else's, and no mistake.
  explicit ScenarioReader(const Document& document, bool generates = false)
      : document_(document), root_(document.root().as_map()), generates_(generates) {}

  Scenario read();

 private:
  void read_model();
  void read_machine();
  void read_strategy_section();
  void read_training();
  void read_run();
  void read_rest();
  void check_machine();
  void resolve_training();
  void take_nccl_of_its_time();
  void complete();
  Value section(const char* key) { return section_or_empty(root_, empty_, key); }

  const Document& document_;
  Map root_;
  bool generates_;
  std::shared_ptr<const Document> defaults_ =
      Document::parse("{optimizer: {sgd: {}}, train: {}, run: {}}", "defaults");
  Map empty_ = defaults_->root().as_map();
  ProfileLibrary library_;
  std::optional<Framework> framework_;
  CostChoice choice_;
  std::optional<JobsSection> jobs_;
  std::optional<Value> model_, cluster_, strategy_;
  /// Sections that were read without a mistake.
  bool has_framework_ = false, has_model_ = false, has_cluster_ = false, has_strategy_ = false,
       has_optimizer_ = false, has_train_ = false;
  Scenario scenario_;
};

void ScenarioReader::read_model() {
  model_ = root_.require("model");
  has_framework_ = read_part([&] {
    framework_ = read_framework(root_, Map(root_).optional("strategy"));
    framework_->check(root_);
  });
  if (!framework_) framework_ = Framework::of_strategy(std::nullopt);
  has_model_ = read_part([&] {
    choice_ = read_model_section(*model_, *framework_, scenario_, library_);
    scenario_.whole_step = choice_.whole_step;
    scenario_.given_at = choice_.given_at;
  });
}

void ScenarioReader::read_machine() {
  cluster_ = root_.require("cluster");
  const std::optional<Value> shared = root_.optional("jobs");
  has_cluster_ = read_part([&] {
    const SoundPart nodes;
    scenario_.cluster = read_cluster(*cluster_);
    nodes.check();
    if (shared) jobs_.emplace(*shared, scenario_);
    scenario_.comm = load_comm_profile(scenario_.cluster);
    if (scenario_.comm && is_gloos(*scenario_.comm) &&
        scenario_.cluster.collectives == CollectiveModel::nccl)
      scenario_.cluster.collectives = CollectiveModel::gloo;
    if (scenario_.cluster.gpu_count() == 0)
      cluster_->fail("a cluster without a GPU trains nothing");
  });
}

/// Checks what the model asks of the machine.
void ScenarioReader::check_machine() {
  const bool both = has_model_ && has_cluster_;
  check_parts(both, [&] {
    if (scenario_.whole_step) {
      settle_whole_step(scenario_);
      check_whole_step(*model_, scenario_);
    }
    if (has_given_times(scenario_.model) && !model_->as_map().has("measured_at"))
      check_given_times(*model_, *cluster_);
  });
  check_parts(both, [&] { check_narrow(*model_, scenario_); });
  check_parts(both, [&] { check_attention(*model_, scenario_); });
}

void ScenarioReader::read_strategy_section() {
  strategy_ = root_.require("strategy");
  has_strategy_ = read_part([&] { scenario_.strategy = read_strategy(*strategy_, *framework_); },
                            has_framework_);
  check_parts(has_strategy_ && has_cluster_,
              [&] { check_strategy_section(*strategy_, choice_, scenario_); });
  check_parts(has_strategy_ && has_model_, [&] { check_kept_narrow(*strategy_, scenario_); });
  check_parts(has_strategy_ && has_model_,
              [&] { check_captured_precision(*model_, *strategy_, scenario_); });
}

void ScenarioReader::read_training() {
  if (!root_.has("optimizer")) scenario_.assumptions.emplace_back("optimizer = sgd");
  has_optimizer_ = read_part(
      [&] {
        scenario_.optimizer =
            read_optimizer_section(section("optimizer"), *framework_, scenario_.precision);
      },
      has_framework_);
  check_parts(has_model_ && has_cluster_ && has_strategy_ && has_optimizer_, [&] {
    for (std::string& line : numeric_formats(scenario_))
      scenario_.assumptions.push_back(std::move(line));
  });
  has_train_ = read_part([&] { scenario_.train = read_train_section(section("train")); });
}

/// Resolves what is played from what was said of batches, ranks and optimizer.
void ScenarioReader::resolve_training() {
  apply_micro_batch_size(*strategy_, scenario_);
  if (root_.has("train")) {
    const Value train = root_.require("train");
    apply_tokens(train, scenario_);
    apply_global_batch(train, *strategy_, scenario_);
  }
  if (const auto fsdp = sharded_in(scenario_.strategy); fsdp && fsdp->param_dtype)
    compute_adapters_in_16_bits(scenario_.model);
  apply_layout(*strategy_, *framework_, scenario_);
  apply_recomputed_layers(scenario_);
  check_activation_offload(*model_, scenario_);
  if (has_optimizer_ && root_.has("optimizer"))
    check_optimizer(root_.require("optimizer"), scenario_);
  if (has_optimizer_ && scenario_.whole_step) check_whole_step_fits(*model_, scenario_);
  if (has_optimizer_) apply_clipping(*framework_, scenario_);
  apply_grad_scaler(scenario_);
  if (has_optimizer_ && root_.has("train")) apply_loss(root_.require("train"), scenario_);
}

void ScenarioReader::read_run() {
  const std::size_t ranks = has_cluster_ ? scenario_.cluster.gpu_count() : kMostRanks;
  read_part(
      [&] {
        scenario_.run = read_run_section(section("run"), ranks, *framework_, scenario_.comm.get());
      },
      has_cluster_);
}

/// CPUs run what they are told before they return.
void check_blocking(const Map& root, const Scenario& scenario) {
  if (!scenario.run.efficiency.launch_blocking || device_of(scenario) != TapeDevice::cpu) return;
  Map copy = root;
  Map run = copy.require("run").as_map();
  run.require("efficiency")
      .as_map()
      .at_key("cuda_launch_blocking")
      .fail("no CUDA launches kernels where CPUs train", "remove it, or name a cluster of GPUs");
}

/// A graph of what the network has none of would hold nothing.
void check_graphs(const Map& root, const Scenario& scenario) {
  if (!scenario.transformer) return;
  const bool experts = scenario.transformer->experts.has_value();
  const bool mamba = std::ranges::any_of(scenario.transformer->mixers(),
                                         [](const MixerPtr& one) { return one->is_mamba(); });
  Map copy = root;
  for (const GraphScope scope : scenario.run.efficiency.graphs) {
    const bool of_experts = scope == GraphScope::moe || scope == GraphScope::moe_router ||
                            scope == GraphScope::moe_preprocess;
    const bool held = of_experts ? experts : scope != GraphScope::mamba || mamba;
    if (held) continue;
    copy.require("run")
        .as_map()
        .require("efficiency")
        .as_map()
        .at_key("cuda_graph_scope")
        .fail(fmt::format("{} has no {} that a graph could hold", scenario.model.name,
                          of_experts ? "experts" : "Mamba layers"),
              "attn and mlp of a dense network, or remove it");
  }
}

void ScenarioReader::read_rest() {
  const bool has_all = has_model_ && has_cluster_ && has_strategy_ && has_train_;
  read_part([&] {
    if (const auto memory = root_.optional("memory")) {
      read_memory_section(*memory, scenario_);
    } else {
      scenario_.assumptions.emplace_back("memory.allocator = PyTorch's defaults");
    }
  });
  read_part([&] { read_economy_sections(root_, scenario_); }, has_all);
  read_part([&] {
    if (const auto convergence = root_.optional("convergence"))
      scenario_.convergence =
          read_convergence_section(*convergence, has_all ? &scenario_ : nullptr);
  });
  root_.finish();
}

/// NCCL 2.3 over sockets: two reach 2.77 GB/s on 32 Gbit/s and one 2.06, where those of 2.4.2 reach
/// 1.95 and 1.85 (NVIDIA/nccl issue 209).
void take_sockets_of_its_time(Cluster& cluster) {
  constexpr double kFaster = 1.25;
  constexpr NcclVersion kSlowed{2, 4};
  if (!cluster.nccl.version || cluster.nccl.at_least(kSlowed)) return;
  for (NodeGroup& group : cluster.groups) {
    NicTransport& transport = group.node.transport;
    if (transport.kind == NicTransport::Kind::tcp && !transport.socket_rate_stated)
      transport.socket_rate *= kFaster;
  }
}

/// A framework whose version is said has that time's NCCL.
void ScenarioReader::take_nccl_of_its_time() {
  const std::string key = "cluster.nccl.version";
  Cluster& cluster = scenario_.cluster;
  const bool asked = cluster.collectives == CollectiveModel::nccl && !cluster.nccl.version;
  if (!asked || !framework_->choice().version_said || !framework_->find(key)) return;
  const std::vector<int> numbers = version_numbers(framework_->word(key));
  cluster.nccl.version = NcclVersion{numbers.at(0), numbers.at(1)};
  framework_->note(key);
}

/// Completes the scenario of a file without mistakes.
void ScenarioReader::complete() {
  take_nccl_of_its_time();
  take_sockets_of_its_time(scenario_.cluster);
  scenario_.framework = framework_->choice();
  scenario_.cost_sources = find_cost_sources(scenario_, choice_, library_);
  check_blocking(root_, scenario_);
  check_graphs(root_, scenario_);
  balance_stages(*strategy_, scenario_);
  take_usual_fleet(scenario_);
  take_usual_messages(scenario_);
  say_unused_spread(scenario_);
  say_unused_head_start(scenario_);
  check_replications(document_, scenario_.run);
  if (jobs_) jobs_->read_others(scenario_, choice_, *strategy_, *framework_, library_);
  append(scenario_.assumptions, document_.defaults_taken());
  append(scenario_.assumptions, defaults_->defaults_taken());
  say_silent_defaults(root_, scenario_);
  say_loss(scenario_);
}

Scenario ScenarioReader::read() {
  // What each scenario rests on is among the files that it stands for, in one order: intervals are
  // as wide as the one says, a GPU that nobody describes is of a generation of the other, and the
  // loss is by the rest.
  for (const char* file : {"architectures.yaml", "intervals.yaml", "convergence/workloads.yaml",
                           "convergence/methods.yaml"})
    Document::load(platforms_path(file));
  check_kind(root_, FileKind::scenario);
  const std::size_t before = Mistakes::current() == nullptr ? 0 : Mistakes::current()->events();
  scenario_.file = document_.name();
  if (const auto description = root_.optional("description"))
    scenario_.description = description->as_string();
  if (const auto rl = root_.optional("rl"); rl && !generates_) {
    rl->as_map();
    root_.at_key("rl").fail(
        "a step of post-training, which this command does not know",
        fmt::format("`rehearse run {0}` predicts it, and `rehearse plan {0}` tries "
                    "splits of its GPUs",
                    document_.name()));
  }
  read_model();
  read_machine();
  check_machine();
  read_strategy_section();
  read_training();
  check_parts(has_model_ && has_cluster_ && has_strategy_ && has_train_,
              [&] { resolve_training(); });
  read_run();
  read_rest();
  const Mistakes* const mistakes = Mistakes::current();
  if (mistakes == nullptr || mistakes->events() == before) complete();
  return std::move(scenario_);
}

}  // namespace

Scenario read_scenario(const Document& document) {
  return read_with_all_mistakes([&] { return ScenarioReader(document).read(); });
}

Scenario read_training_part(const Document& document) {
  return read_with_all_mistakes([&] { return ScenarioReader(document, true).read(); });
}

}  // namespace rehearse::inline scenario
