// What a layout asks of the cluster and of the model, each rule with its own message.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/adaptation.hpp"
#include "model/captured/captured.hpp"
#include "model/layout_rules.hpp"
#include "model/packing.hpp"
#include "model/recorded/recorded.hpp"
#include "model/stages.hpp"
#include "model/token_histogram.hpp"
#include "scenario/limits.hpp"
#include "scenario/sections.hpp"
#include "strategy/layout/balanced_split.hpp"
#include "strategy/sharded_parameters.hpp"
#include "strategy/sharding_groups.hpp"

namespace rehearse::inline scenario {
namespace {

/// Where a key stands; the strategy where it is missing.
Value at(const Map& map, const std::string& key) {
  Map copy = map;
  return map.has(key) ? copy.require(key) : map.where();
}

/// And a key of its map `pipeline`.
Value at_pipeline(const Map& map, const std::string& key) {
  Map copy = map;
  if (!map.has("pipeline")) return at(map, "pipeline_parallel");
  return at(copy.require("pipeline").as_map(), key);
}

void check_mesh(const Map& map, const Layout& layout, const Cluster& cluster) {
  const std::size_t gpus = cluster.gpu_count();
  if (mesh_on(layout, gpus)) return;
  Mesh replica = layout.mesh;
  replica.data = 1;
  std::string product;
  Value last = map.where();
  for (const MeshAxis axis : {MeshAxis::tensor, MeshAxis::context, MeshAxis::pipeline}) {
    if (replica.degree(axis) == 1) continue;
    const std::string key = to_string(axis) + "_parallel";
    product += fmt::format("{}{} {}", product.empty() ? "" : " x ", key, replica.degree(axis));
    last = at(map, key);
  }
  last.fail(fmt::format("{} needs a multiple of {} GPUs; the cluster has {}", product,
                        replica.ranks(), gpus),
            "other degrees, or another number of nodes");
}

/// Of a hybrid sharding: those that have the same layers are whole groups.
void check_shard_group(const Map& map, const Strategy& strategy, const Cluster& cluster) {
  const auto fsdp = sharded_in(strategy);
  if (!fsdp || fsdp->shard_group == 0) return;
  const Mesh mesh = *mesh_on(*strategy.layout, cluster.gpu_count());
  const int ranks = mesh.data * mesh.context;
  if (ranks % fsdp->shard_group == 0) return;
  at(at(map, map.has("fsdp") ? "fsdp" : "fsdp2").as_map(), "shard_group")
      .fail(fmt::format("{} ranks that have the same layers do not divide into groups of {}", ranks,
                        fsdp->shard_group),
            fmt::format("a divisor of {}", ranks));
}

/// Groups that shard hold whole groups of experts, and a part after forward is one of either.
void check_shards(const Map& map, const Strategy& strategy, const Cluster& cluster) {
  const auto fsdp = sharded_in(strategy);
  if (!fsdp) return;
  const Mesh mesh = *mesh_on(*strategy.layout, cluster.gpu_count());
  const auto replicas = groups(mesh, {MeshAxis::data, MeshAxis::context});
  const auto size_of = [](const auto& groups) { return static_cast<int>(groups.front().size()); };
  int shards = size_of(replicas);
  int experts = mesh.expert == 1 ? 1 : size_of(groups(expert_mesh(mesh), {MeshAxis::data}));
  Map options = at(map, map.has("fsdp")            ? "fsdp"
                        : map.has("zero")          ? "zero"
                        : map.has("megatron_fsdp") ? "megatron_fsdp"
                                                   : "fsdp2")
                    .as_map();
  if (fsdp->hybrid()) {
    const auto group =
        static_cast<int>(shards_of_layout(*fsdp, replicas.front(), gpu_places(cluster)));
    const int copies = shards / group;
    shards = group;
    if (mesh.expert > 1 && experts % copies != 0)
      at(options, options.has("shard_group") ? "shard_group" : "sharding")
          .fail(fmt::format("groups of {} do not hold whole groups of expert_parallel {}", group,
                            mesh.expert),
                "larger groups, as torchtitan asks, or shard over all replicas");
    experts /= std::min(copies, experts);
  }
  const int part = fsdp->post_forward_group;
  const auto divides = [part](int ranks) { return part < ranks && ranks % part == 0; };
  if (part == 0 || (divides(shards) && (experts == 1 || divides(experts)))) return;
  at(options, "reshard_after_forward")
      .fail(fmt::format("{} are no part of the {} ranks that share {}, as FSDP2 asks", part,
                        divides(shards) ? experts : shards,
                        divides(shards) ? "experts" : "parameters"),
            "another number, true or false");
}

/// A rank's share of each layer is known of transformers alone.
void check_shape(const Map& map, const Layout& layout, const Scenario& scenario) {
  const Mesh& mesh = layout.mesh;
  const std::string& name = scenario.model.name;
  const bool captured = scenario.model.captured != nullptr;
  if (layout.shares_tables && !captured)
    at(map, "embedding_parallel")
        .fail(name + " is no captured network, whose EmbeddingBags ranks share",
              "model.captured, or remove it");
  if (layout.shares_tables && mesh.pipeline > 1)
    at(map, "pipeline_parallel")
        .fail("ranks that share tables run the whole network", "embedding_parallel alone");
  if (layout.shares_tables && shards_parameters(scenario.strategy))
    at(map, "embedding_parallel")
        .fail("it is not known how tables that ranks share are sharded once more", "ddp");
  if (scenario.transformer) return;
  const bool profiled = recorded::is_profiled(scenario.model);
  if (profiled && mesh.tensor > 1 && layout.sequence_parallel)
    map.at_key("sequence_parallel")
        .fail("a record does not tell which operators may have a part of the tokens each",
              "sequence_parallel: false");
  if (captured && map.has("sequence_parallel"))
    at(map, "sequence_parallel")
        .fail("which tokens a captured rank has is said by the plan that it was captured with",
              "capture(..., tensor_parallel=N, plan={\"...norm\": \"sequence_parallel\"})");
  if (profiled && mesh.pipeline > 1 && !recorded::tells_cuts(scenario.model))
    at(map, "pipeline_parallel")
        .fail("the profile does not say how large what its units hand on is",
              "a profile that `rehearse record` writes");
  for (const auto& [degree, axis] :
       {std::pair(mesh.tensor, MeshAxis::tensor), std::pair(mesh.context, MeshAxis::context),
        std::pair(mesh.expert, MeshAxis::expert)})
    if (degree > 1 && !((captured || profiled) && axis == MeshAxis::tensor) &&
        !(axis == MeshAxis::expert && layout.shares_tables))
      at(map, to_string(axis) + "_parallel")
          .fail(captured   ? name + " was captured whole, and not as one of several ranks runs it"
                : profiled ? name + " was recorded, which tells no shares by tokens or experts"
                           : "no share of " + name + "'s layers is known: it is no decoder",
                captured   ? "leave it out: fsdp2 and pipeline_parallel divide the network as it is"
                : profiled ? "tensor_parallel, pipeline_parallel, or data parallelism alone"
                           : "fsdp2, pipeline_parallel, or data parallelism alone");
  // Convolutions leave 16 bits and sums 32: captures and records tell what a stage is sent.
  if (mesh.pipeline > 1 && is_autocast(scenario.precision) && !captured && !profiled)
    at(map, "pipeline_parallel")
        .fail(fmt::format(
                  "under autocast it is not known how wide {}'s activations are between stages",
                  scenario.model.name),
              "model.precision fp32 or bf16_master");
}

int nvlink_domain(const Cluster& cluster) {
  for (const NodeGroup& group : cluster.groups)
    if (group.node.gpus > 0) return group.node.nvlink ? group.node.gpus : 0;
  return 0;
}

/// Where a rule's key stands.
Value at_rule(const Map& map, const std::string& key) {
  Map copy = map;
  if (key == "virtual_stages") return at_pipeline(map, key);
  if ((key == "dispatch" || key == "overlap" || key == "node_limit" || key == "imbalance") &&
      map.has("experts"))
    return at(copy.require("experts").as_map(), key);
  return at(map, key);
}

/// Of layers that the model has.
void check_histogram(const Map& map, const Layout& layout, const Cluster& cluster,
                     Scenario& scenario) {
  if (!layout.histogram || !scenario.transformer || !scenario.transformer->experts) return;
  const TokenHistogram& histogram = *layout.histogram;
  const TransformerShape& t = *scenario.transformer;
  const auto fail = [&](std::size_t found, const std::string& what, std::int64_t has) {
    at(at(map, "experts").as_map(), "imbalance")
        .fail(fmt::format("{} has {} {}, {} {}", histogram.file, found, what, t.name, has),
              what == "experts" ? "a number for each expert"
                                : "a row for each layer with experts, or one for all");
  };
  if (histogram.experts() != static_cast<std::size_t>(t.experts->count))
    fail(histogram.experts(), "experts", t.experts->count);
  std::int64_t layers = t.predicted_tokens;
  for (std::int64_t block = 0; block < t.layers; ++block)
    if (t.has_experts(block)) ++layers;
  const std::size_t rows = histogram.rows.size();
  if (rows > 1 && rows != static_cast<std::size_t>(layers)) fail(rows, "rows of layers", layers);
  const std::vector<double> all = parallel_of(layout, cluster).imbalance;
  scenario.assumptions.push_back(fmt::format(
      "experts.imbalance: of {} ranks the fullest has {:.3g} to {:.3g} times the mean, as in {}",
      layout.mesh.expert, std::ranges::min(all), std::ranges::max(all), histogram.file));
}

/// Micro-batches of a round of the pipeline.
int round_of(const Layout& layout) { return layout.micro_batches / layout.gradient_accumulation; }

/// Megatron-LM's rules of a transformer; what is doubtful becomes an assumption.
void check_rules(const Map& map, const Layout& layout, const Cluster& cluster, Scenario& scenario) {
  if (!scenario.transformer) return;
  const bool in_rounds = !layout.order && layout.schedule == PipelineSchedule::interleaved;
  const LayoutDegrees degrees{
      .model = parallel_of(layout, cluster),
      .pipeline = layout.mesh.pipeline,
      .virtual_stages = layout.virtual_stages,
      .even_split = layout.split.empty() && layout.balance == Layout::Balance::none,
      .micro_batches = in_rounds || layout.virtual_stages == 1 ? round_of(layout) : 0,
      .tokens = scenario.model.tokens_per_sample,
      .fused_attention = fuses_attention(*scenario.transformer, scenario.shape),
      .gpus = static_cast<int>(cluster.gpu_count()),
      .nvlink_domain = nvlink_domain(cluster),
      .stages_agree = stages_agree(*mesh_on(layout, cluster.gpu_count()))};
  for (const LayoutFinding& found : layout_findings(*scenario.transformer, degrees)) {
    if (found.kind == LayoutFinding::Kind::refused)
      at_rule(map, found.key).fail(found.message, found.remedy);
    scenario.assumptions.push_back(fmt::format("doubtful: {}", found.message));
  }
}

/// torchtitan/distributed/tensor_parallel.py asks so, and PyTorch finds what to take apart in
/// compiled code alone (torch/_inductor/fx_passes/micro_pipeline_tp.py).
void check_async_tensor(const Map& map, const Scenario& scenario) {
  Map copy = map;
  const std::optional<Value> asked = copy.optional("enable_async_tensor_parallel");
  if (!asked || !asked->as_bool() || scenario.model.compile != Compile::none) return;
  map.at_key("enable_async_tensor_parallel")
      .fail(
          "torchtitan refuses it here: \"Async TP requires 'model' in --compile.components and "
          "--compile.enable\" (torchtitan/distributed/tensor_parallel.py)",
          "add compile: blocks to the model, or remove it");
}

void check_order(const Map& map, const Layout& layout) {
  if (layout.order) {
    const auto ranks = static_cast<int>(layout.order->order.size());
    if (ranks != layout.mesh.pipeline)
      at_pipeline(map, "schedule")
          .fail(fmt::format("{} has {} ranks, pipeline_parallel {}", layout.order_file, ranks,
                            layout.mesh.pipeline),
                fmt::format("pipeline_parallel: {}, or a file of as many ranks", ranks));
    return;
  }
  if (layout.micro_batches % layout.gradient_accumulation != 0)
    at_pipeline(map, "gradient_accumulation")
        .fail(fmt::format("{} micro-batches do not divide into {} rounds", layout.micro_batches,
                          layout.gradient_accumulation),
              fmt::format("a divisor of {}", layout.micro_batches));
  const std::string why =
      illegal(layout.schedule, layout.mesh.pipeline, round_of(layout), layout.virtual_stages);
  if (!why.empty())
    at_pipeline(map, "schedule").fail(why, "change virtual_stages or micro_batches");
}

void check_split(const Map& map, const Layout& layout, const Model& model) {
  std::string why_not;
  const auto stages = static_cast<std::size_t>(order_of(layout).stage_count());
  split_into_stages(model, stages, layout.split, why_not);
  if (why_not.empty()) return;
  const bool given = !layout.split.empty();
  (given ? at_pipeline(map, "split") : at(map, "pipeline_parallel"))
      .fail(why_not, given ? "a number of them for each stage, which add up to all"
                           : "another degree, or pipeline: {split: [...]}");
}

}  // namespace

namespace {

/// Ranks that each have a part of every document: of Ulysses' attention each has all of its heads'.
int parts_of_documents(const ModelParallel& parallel) {
  return parallel.context_method == ContextMethod::ulysses ? 1 : parallel.context;
}

/// What one rank computes of the model, made as the whole model was.
Model rank_share(const Scenario& scenario, const ModelParallel& parallel) {
  Model share = share_of(*scenario.transformer, scenario.shape, parallel);
  if (scenario.adaptation) share = adapt(std::move(share), *scenario.adaptation);
  share = with_float8(std::move(share), scenario.model.float8);
  share = compiled(std::move(share), scenario.model.compile);
  if (scenario.recomputation.any()) share = recomputing(std::move(share), scenario.recomputation);
  if (const auto fsdp = sharded_in(scenario.strategy); fsdp && fsdp->param_dtype)
    compute_adapters_in_16_bits(share);
  if (const auto document = packed_document(scenario.model))
    share = packed(std::move(share), *document, parts_of_documents(parallel));
  return share;
}

/// One of the ranks that share layers or tables runs this of a captured model, as it was captured,
/// or of a recorded one.
Model captured_rank(const Map& map, const Layout& layout, const Scenario& scenario) {
  const bool tables = layout.mesh.expert > 1;
  if (tables && layout.mesh.tensor > 1)
    at(map, "embedding_parallel")
        .fail("no capture is one of tensor ranks that share tables, too",
              "remove it, or tensor_parallel");
  try {
    if (!scenario.model.captured) return recorded::rank_of(scenario.model, layout.mesh.tensor);
    return tables ? captured::rank_of(scenario.model, ExchangeAxis::embedding, layout.mesh.expert)
                  : captured::rank_of(scenario.model, ExchangeAxis::tensor, layout.mesh.tensor);
  } catch (const std::exception& error) {
    at(map, tables ? "embedding_parallel" : "tensor_parallel").fail(error.what());
  }
}

/// natural_imbalance() where ranks get each other's tokens, and nobody says how many.
std::optional<double> fullest_by_nature(const Scenario& scenario, const Layout& layout) {
  const std::optional<TransformerShape>& t = scenario.transformer;
  const bool dropless = t && t->experts && t->experts->capacity == 0;
  const bool unsaid = layout.natural_routing || (!layout.imbalance && !layout.histogram);
  if (!dropless || layout.mesh.expert == 1 || !unsaid) return std::nullopt;
  return natural_imbalance(t->experts->count, layout.mesh.expert);
}

/// `imbalance: natural`: what a router with an auxiliary loss leaves.
void apply_natural_routing(const Map& map, Scenario& scenario) {
  Layout& layout = *scenario.strategy.layout;
  const auto fullest = fullest_by_nature(scenario, layout);
  if (!fullest) {
    if (layout.mesh.expert == 1 || !scenario.transformer || !scenario.transformer->experts) return;
    at(at(map, "experts").as_map(), "imbalance")
        .fail("a capacity fills every expert up to it, whatever tokens choose",
              "leave out imbalance, or set the model's experts.capacity: dropless");
  }
  layout.imbalance = *fullest;
  scenario.assumptions.push_back(
      fmt::format("experts.imbalance = natural: the fullest of {} ranks gets {:.3g} times the mean "
                  "(spread of experts' loads by Wang et al. 2024, arXiv:2408.15664, table 2)",
                  layout.mesh.expert, *fullest));
}

}  // namespace

void apply_layout(const Value& strategy, const Framework& framework, Scenario& scenario) {
  const auto& layout = scenario.strategy.layout;
  if (!layout) return;
  const Map map = strategy.as_map();
  const Cluster cluster = cluster_of_replica(scenario.strategy, scenario.cluster);
  check_mesh(map, *layout, cluster);
  check_shard_group(map, scenario.strategy, cluster);
  check_shards(map, scenario.strategy, cluster);
  check_shape(map, *layout, scenario);
  check_histogram(map, *layout, cluster, scenario);
  check_rules(map, *layout, cluster, scenario);
  check_async_tensor(map, scenario);
  check_order(map, *layout);
  check_experts(map, scenario.strategy, cluster);
  if (layout->balance == Layout::Balance::none) check_split(map, *layout, scenario.model);
  apply_main_gradients(framework, scenario);
  if (layout->dispatch == ExpertDispatch::replicated)
    scenario.assumptions.push_back(
        fmt::format("experts.dispatch = replicated: {0} ranks with the same tokens share experts "
                    "alone; they have the place of {0} tensor ranks",
                    layout->mesh.tensor));
  if (layout->natural_routing) apply_natural_routing(map, scenario);
  const ModelParallel parallel = parallel_of(*layout, cluster);
  if (parallel.tensor > 1 && scenario.model.compile != Compile::none &&
      framework.word("activation_checkpointing.early_stop") == "no_collectives")
    scenario.early_stop = false;  // a block's last product is what a collective sends
  if (scenario.transformer && !parallel.is_whole())
    scenario.share = std::make_shared<const Model>(rank_share(scenario, parallel));
  if (!scenario.transformer && (layout->mesh.tensor > 1 || layout->mesh.expert > 1))
    scenario.share = std::make_shared<const Model>(captured_rank(map, *layout, scenario));
  if (const auto fullest = fullest_by_nature(scenario, *layout);
      fullest && !layout->natural_routing)
    scenario.assumptions.push_back(
        fmt::format("experts.imbalance = 1: tokens are balanced; where a router with an auxiliary "
                    "loss chooses, the fullest rank gets {:.3g} times the mean",
                    *fullest));
}

std::optional<Scenario> with_natural_routing(const Scenario& scenario) {
  const auto& stated = scenario.strategy.layout;
  const auto fullest = stated ? fullest_by_nature(scenario, *stated) : std::nullopt;
  if (!fullest || stated->natural_routing) return std::nullopt;
  Scenario other = scenario;
  auto& layout = other.strategy.layout;
  layout->imbalance = *fullest;
  const Cluster cluster = cluster_of_replica(other.strategy, other.cluster);
  other.share = std::make_shared<const Model>(rank_share(other, parallel_of(*layout, cluster)));
  return other;
}

void apply_balance(const Value& strategy, const Job& job, Scenario& scenario) {
  auto& layout = scenario.strategy.layout;
  if (!layout || layout->balance == Layout::Balance::none) return;
  layout->split = balanced_split(scenario.strategy, job);
  check_split(strategy.as_map(), *layout, scenario.model);
  const char* const what = layout->balance == Layout::Balance::time ? "time" : "memory";
  scenario.assumptions.insert(
      scenario.assumptions.begin(),
      fmt::format("strategy.pipeline.split = [{}]: the {} of stages is balanced",
                  fmt::join(layout->split, ", "), what));
}

}  // namespace rehearse::inline scenario
