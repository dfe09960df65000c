#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "cluster/overrides.hpp"
#include "cluster/parts.hpp"
#include "config/mistakes.hpp"

namespace rehearse::inline cluster {
namespace {

constexpr std::int64_t kMostNodes = 1'000'000;
constexpr std::int64_t kMostGpus = 1'000'000;
constexpr std::int64_t kMostCores = 1'000'000;

std::string string_if(Map& map, const std::string& key, const std::string& missing) {
  const std::optional<Value> value = map.optional(key);
  return value ? value->as_string() : missing;
}

int read_node_count(const Value& value) {
  return static_cast<int>(value.as_integer(1, kMostNodes));
}

/// GPUs of no real machine are no NCCL's.
CollectiveModel usual_collectives(const Cluster& cluster) {
  const bool real = std::ranges::any_of(cluster.groups, [](const NodeGroup& group) {
    return group.node.gpus > 0 && group.node.gpu.name != "generic";
  });
  return real ? CollectiveModel::nccl : CollectiveModel::links;
}

/// The only group with GPUs: what `nodes` and `gpus_per_node` of a `use:` change. Groups of CPU
/// nodes stay.
NodeGroup& gpu_group(Cluster& cluster, const Value& where,
                     const char* remedy = "write the cluster inline with `groups:`") {
  const auto has_gpus = [](const NodeGroup& group) { return group.node.gpus > 0; };
  if (std::count_if(cluster.groups.begin(), cluster.groups.end(), has_gpus) != 1) {
    where.fail(fmt::format("{} has several groups with GPUs; which one is meant?", cluster.name),
               remedy);
  }
  return *std::find_if(cluster.groups.begin(), cluster.groups.end(), has_gpus);
}

/// Reads the price of the cluster's nodes with GPUs, whatever else says it.
void read_price(Map& map, Cluster& cluster) {
  if (const std::optional<Value> price = map.optional("usd_per_hour"))
    gpu_group(cluster, *price, "give each group's node its own usd_per_hour").node.prices =
        read_own_prices(*price);
}

void read_collectives(Map& map, Cluster& cluster) {
  const std::optional<Value> model = map.optional("collectives"), options = map.optional("nccl");
  if (model) {
    const std::string name = model->as_choice({"nccl", "gloo", "links"});
    cluster.collectives = name == "links"  ? CollectiveModel::links
                          : name == "gloo" ? CollectiveModel::gloo
                                           : CollectiveModel::nccl;
  }
  if (const std::optional<Value> gloo = map.optional("gloo")) {
    if (cluster.collectives != CollectiveModel::gloo)
      gloo->fail("collectives are not Gloo's", "add `collectives: gloo`, or remove it");
    cluster.gloo = read_gloo_options(*gloo);
  }
  if (!options) return;
  if (model && cluster.collectives != CollectiveModel::nccl)
    options->fail(cluster.collectives == CollectiveModel::links
                      ? "collectives go by links alone, where NCCL has no options"
                      : "collectives are Gloo's, which has none of NCCL's options",
                  "remove it, or `collectives: links`");
  cluster.nccl = read_nccl_options(*options);
  cluster.collectives = CollectiveModel::nccl;
}

Cluster::RunQueue read_run_queue(const Value& value) {
  Map map = value.as_map();
  const auto count = [&](const char* key) {
    return static_cast<int>(map.integer_or(key, 1, 1, kMostCores));
  };
  const Value ready = map.require("ready"), step = map.require("step");
  const Cluster::RunQueue read{.ready = ready.as_seconds(),
                               .step = step.as_seconds(),
                               .ranks = count("ranks"),
                               .threads_per_rank = count("threads_per_rank"),
                               .cores = count("cores")};
  if (read.step <= Seconds(0)) step.fail("a step takes time", "give its length");
  if (read.ready > read.step)
    ready.fail("a thread is ready for no longer than the step takes", "give `step` or less");
  map.finish();
  return read;
}

/// What an inline cluster and one that is used say alike about the whole of it.
void read_common(Map& map, Cluster& cluster) {
  read_collectives(map, cluster);
  if (const std::optional<Value> profile = map.optional("comm_profile")) {
    cluster.comm_profile = read_comm_profile_file(*profile);
  }
  if (const std::optional<Value> kernels = map.optional("kernels"))
    read_measured_kernels(*kernels, cluster);
  if (const std::optional<Value> cores = map.optional("shared_cores")) {
    cluster.shared_cores = static_cast<int>(cores->as_integer(1, kMostCores));
  }
  if (const std::optional<Value> busy = map.optional("busy_cores")) {
    Map measured = busy->as_map();
    const Value slowdown = measured.require("slowdown");
    cluster.busy_cores = {.slowdown = slowdown.as_positive_number(),
                          .spread = measured.non_negative_number_or("spread", 0),
                          .drift = measured.non_negative_number_or("drift", 0)};
    if (cluster.busy_cores->slowdown < 1)
      slowdown.fail("cores are no faster for being busy", "give 1 or more");
    measured.finish();
  }
  if (const std::optional<Value> queue = map.optional("run_queue"))
    cluster.run_queue = read_run_queue(*queue);
  if (const std::optional<Value> ahead = map.optional("head_start"))
    cluster.head_start = ahead->as_non_negative_number();
  if (const std::optional<Value> steps = map.optional("measured_steps"))
    cluster.measured_steps = read_measured_steps(*steps);
}

void check_size(const Value& where, const Cluster& cluster) {
  const std::size_t nodes = cluster.node_count();
  const std::size_t gpus = cluster.gpu_count();
  if (nodes > static_cast<std::size_t>(kMostNodes)) {
    where.fail(
        fmt::format("the cluster has {} nodes; at most {} can be simulated", nodes, kMostNodes));
  }
  if (gpus == 0) where.fail("the cluster has no GPU", "give at least one node gpus: 1 or more");
  if (gpus > static_cast<std::size_t>(kMostGpus)) {
    where.fail(
        fmt::format("the cluster has {} GPUs; at most {} can be simulated", gpus, kMostGpus));
  }
}

/// A cable lets at once pass what NICs send at once, which is nothing without bursts of their own.
void check_burst(Map& map, const Cluster& cluster) {
  const bool shaped = std::visit(
      [](const auto& fabric) {
        if constexpr (requires { fabric.burst; }) return fabric.burst.value_or(Bytes(0)) > Bytes(0);
        return false;
      },
      cluster.fabric);
  const bool bursts = std::ranges::any_of(
      cluster.groups, [](const NodeGroup& group) { return group.node.nic_burst > Bytes(0); });
  if (!shaped || bursts || !map.has("fabric")) return;
  Map fabric = map.require("fabric").as_map();
  fabric.require(fabric.keys().front())
      .as_map()
      .at_key("burst")
      .fail("cables pass at once what NICs send at once, and no node has nic_burst",
            "give the nodes nic_burst, too");
}

/// After all keys were read: first that none is unknown, as a misspelt one leaves others without
/// what they need.
void finish(Map& map, const Cluster& cluster) {
  map.finish();
  if (cluster.busy_cores && !cluster.shared_cores)
    map.require("busy_cores").fail("busy_cores needs shared_cores", "give shared_cores, too");
  check_size(map.where(), cluster);
  check_burst(map, cluster);
}

NodeGroup read_group(const Value& value, std::size_t index, bool needs_network) {
  Map map = value.as_map();
  NodeGroup group;
  group.name = string_if(map, "name", fmt::format("group{}", index));
  group.nodes = read_node_count(map.require("nodes"));
  group.node = read_node(map.require("node"), needs_network || group.nodes > 1);
  map.finish();
  return group;
}

std::vector<NodeGroup> read_groups(const Value& value) {
  const std::vector<Value> items = value.as_list();
  if (items.empty()) value.fail("expected at least one group of nodes; got an empty list");
  std::vector<NodeGroup> groups;
  std::set<std::string> names;
  for (std::size_t i = 0; i < items.size(); ++i) {
    groups.push_back(read_group(items[i], i, items.size() > 1));
    if (!names.insert(groups.back().name).second) {
      items[i].fail(fmt::format("a second group named \"{}\"", groups.back().name),
                    "give each group a name of its own");
    }
  }
  return groups;
}

std::vector<NodeGroup> read_machines(Map& map) {
  if (const std::optional<Value> groups = map.optional("groups")) {
    for (const char* key : {"nodes", "node"}) {
      if (!map.has(key)) continue;
      map.at_key(key).fail("a cluster has either `nodes` and `node` or `groups`; got both",
                           "make it one more entry of groups");
    }
    return read_groups(*groups);
  }
  std::vector<std::string> others = map.keys();
  std::erase_if(others, [](const std::string& key) { return key == "nodes" || key == "node"; });
  for (const auto& [key, remedy] :
       {std::pair("nodes", "write nodes: 1, or more"),
        std::pair("node", "write what a node has, such as node: {gpus: 8, gpu: H100-SXM}")})
    if (!map.has(key) && nearest(key, others).empty())
      map.where().mistake(fmt::format("the key \"{}\" is missing", key), remedy);
  const int nodes = read_node_count(map.require("nodes"));
  return {{.name = "node", .nodes = nodes, .node = read_node(map.require("node"), nodes > 1)}};
}

/// Everything but `use:`.
Cluster read_inline(const Value& value, const std::string& name) {
  Map map = value.as_map();
  Cluster cluster;
  cluster.name = string_if(map, "name", name);
  const bool has_machines = read_part([&] { cluster.groups = read_machines(map); });
  read_part(
      [&] {
        if (const std::optional<Value> fabric = map.optional("fabric")) {
          cluster.fabric = read_fabric(*fabric, cluster.node_count());
        } else {
          map.string_or("fabric", "star");
        }
      },
      has_machines);
  cluster.collectives = usual_collectives(cluster);
  read_part([&] { read_common(map, cluster); });
  read_part([&] { read_price(map, cluster); }, has_machines);
  cluster.source = string_if(map, "source", "");
  read_part([&] { finish(map, cluster); }, has_machines);
  return cluster;
}

Cluster read_use(const Value& value);

/// A shipped cluster by its name, or a file of the user's own, from where the scenario stands. Such
/// a file may change a shipped one, as `import log --site` writes it.
Cluster read_used(const Value& use) {
  const std::filesystem::path file = use.as_string();
  if (file.extension() == ".yaml") {
    const Value root = Document::load(use.folder() / file)->root();
    if (!root.is_map() || !root.as_map().has("use")) return read_inline(root, file.stem());
    const Value base = root.as_map().require("use");
    if (std::filesystem::path(base.as_string()).extension() == ".yaml")
      base.fail("a file of machines changes shipped ones, and no other file's",
                "name one of `rehearse list clusters`");
    return read_use(root);
  }
  const std::string name = use.as_string();
  if (const auto shipped = shipped_cluster(name)) {
    Cluster cluster = read_inline(*shipped, name);
    take_shipped_prices(name, cluster);
    return cluster;
  }
  const std::vector<std::string> gpus = gpu_names();
  if (std::ranges::find(gpus, name) != gpus.end())
    use.fail(fmt::format("{} is a GPU, no cluster", name),
             fmt::format("write its machine: {{nodes: 1, node: {{gpus: 1, gpu: {}}}}}", name));
  use.as_choice(cluster_names());
  throw InternalError("internal error: a cluster that is named and not shipped");
}

/// Fewer GPUs of a node share the NICs that are theirs: GPU i keeps the NIC that it has in the
/// whole node.
void use_fewer_gpus(Node& node, int gpus) {
  node.nics = std::max(1, (node.nics * gpus + node.gpus - 1) / node.gpus);
  node.gpus = gpus;
}

void override_size(Map& map, Cluster& cluster) {
  if (const std::optional<Value> nodes = map.optional("nodes")) {
    gpu_group(cluster, *nodes).nodes = read_node_count(*nodes);
  }
  if (const std::optional<Value> gpus = map.optional("gpus_per_node")) {
    Node& node = gpu_group(cluster, *gpus).node;
    const auto count = static_cast<int>(gpus->as_integer(1, kMostGpus));
    if (count > node.gpus) {
      gpus->fail(fmt::format("a node of {} has {} GPU{}; got {}", cluster.name, node.gpus,
                             node.gpus == 1 ? "" : "s", count),
                 "use more nodes, or write the node inline");
    }
    use_fewer_gpus(node, count);
  }
}

std::size_t mistakes_so_far() {
  return Mistakes::current() == nullptr ? 0 : Mistakes::current()->events();
}

Cluster read_use(const Value& value) {
  Map map = value.as_map();
  const std::size_t before = mistakes_so_far();
  Cluster cluster = read_used(map.require("use"));
  for (const char* key : {"node", "groups"}) {
    if (!map.has(key)) continue;
    map.at_key(key).fail(
        "`use` takes its machines from the platform; they cannot be given too",
        "remove `use`, or change the platform by keys that `rehearse list keys cluster.` "
        "names");
  }
  const bool is_known = mistakes_so_far() == before;
  for (const auto override_some :
       {override_size, override_network, override_inner_links, override_hosts, override_gpus,
        override_fabric, read_price, read_common}) {
    read_part([&] { override_some(map, cluster); }, is_known);
  }
  cluster.name = string_if(map, "name", cluster.name);
  read_part([&] { finish(map, cluster); }, is_known);
  return cluster;
}

}  // namespace

Cluster read_cluster(const Value& value) {
  if (value.is_scalar())
    value.mistake(fmt::format("expected a map; got \"{}\"", value.shown()),
                  fmt::format("write {{use: {}}}", value.shown()));
  const bool used = value.is_map() && value.as_map().has("use");
  return used ? read_use(value) : read_inline(value, "inline");
}

}  // namespace rehearse::inline cluster
