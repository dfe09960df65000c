#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "cluster/overrides.hpp"
#include "cluster/parts.hpp"
#include "cluster/whole_keys.hpp"
#include "config/mistakes.hpp"

namespace rehearse::inline cluster {
namespace {

constexpr std::int64_t kMostGpus = 1'000'000;

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
  if (const std::optional<Value> price = of_cluster().usd_per_hour.in(map))
    gpu_group(cluster, *price, "give each group's node its own usd_per_hour").node.prices =
        read_own_prices(*price);
}

void read_collectives(Map& map, Cluster& cluster) {
  const std::optional<Value> options = of_cluster().nccl.in(map);
  const std::optional<CollectiveModel> model = of_cluster().collectives.in(map);
  cluster.collectives = model.value_or(cluster.collectives);
  if (const std::optional<Value> gloo = of_cluster().gloo.in(map)) {
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

/// What an inline cluster and one that is used say alike about the whole of it.
void read_common(Map& map, Cluster& cluster) {
  const ClusterKeys& keys = of_cluster();
  read_collectives(map, cluster);
  if (const auto profile = keys.comm_profile.in(map)) cluster.comm_profile = *profile;
  if (const auto kernels = keys.kernels.in(map)) read_measured_kernels(*kernels, cluster);
  if (const auto cores = keys.shared_cores.in(map)) cluster.shared_cores = *cores;
  if (const auto busy = keys.busy_cores.in(map)) cluster.busy_cores = busy;
  if (const auto queue = keys.run_queue.in(map)) cluster.run_queue = queue;
  if (const auto ahead = keys.head_start.in(map)) cluster.head_start = *ahead;
  if (const auto steps = keys.measured_steps.in(map))
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

/// NCCL refuses a job whose NCCL_ALGO names none that runs there (src/enqueue.cc: "no
/// algorithm/protocol available"), and one of a ring or a tree always does.
void check_algorithms(Map& map, const Cluster& cluster) {
  const auto by_switch = [](NcclAlgorithm one) {
    return one == NcclAlgorithm::nvls || one == NcclAlgorithm::nvls_tree;
  };
  const std::vector<NcclAlgorithm>& asked = cluster.nccl.algorithms;
  const bool adds = std::ranges::any_of(cluster.groups, [](const NodeGroup& group) {
    return group.node.gpu.architecture->bounds.nvls_channels > 0;
  });
  if (asked.empty() || adds || !std::ranges::all_of(asked, by_switch) || !map.has("nccl")) return;
  map.require("nccl")
      .as_map()
      .at_key("algorithms")
      .fail("no switch of these nodes adds up, which NVLS needs",
            "name Ring, too, or leave it out");
}

/// After all keys were read: first that none is unknown, as a misspelt one leaves others without
/// what they need.
void finish(Map& map, const Cluster& cluster) {
  map.finish();
  if (cluster.busy_cores && !cluster.shared_cores)
    map.require("busy_cores").fail("busy_cores needs shared_cores", "give shared_cores, too");
  check_size(map.where(), cluster);
  check_burst(map, cluster);
  check_algorithms(map, cluster);
}

NodeGroup read_group(const Value& value, std::size_t index, bool needs_network) {
  Map map = value.as_map();
  NodeGroup group;
  const GroupKeys& keys = of_cluster().group;
  group.name = keys.name.in(map).value_or(fmt::format("group{}", index));
  group.nodes = keys.nodes.required_in(map);
  group.node = read_node(keys.node.required_in(map), needs_network || group.nodes > 1);
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
  if (const std::optional<Value> groups = of_cluster().groups.in(map)) {
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
  const int nodes = of_cluster().nodes.required_in(map);
  const Value node = of_cluster().node.required_in(map);
  return {{.name = "node", .nodes = nodes, .node = read_node(node, nodes > 1)}};
}

/// Everything but `use:`.
Cluster read_inline(const Value& value, const std::string& name) {
  Map map = value.as_map();
  Cluster cluster;
  cluster.name = of_cluster().name.in(map).value_or(name);
  const bool has_machines = read_part([&] { cluster.groups = read_machines(map); });
  read_part(
      [&] {
        if (const std::optional<Value> fabric = of_cluster().fabric.in(map)) {
          cluster.fabric = read_fabric(*fabric, cluster.node_count());
        } else {
          map.string_or(of_cluster().fabric.name, "star");
        }
      },
      has_machines);
  cluster.collectives = usual_collectives(cluster);
  read_part([&] { read_common(map, cluster); });
  read_part([&] { read_price(map, cluster); }, has_machines);
  cluster.source = of_cluster().source.in(map).value_or("");
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
  const ClusterKeys& keys = of_cluster();
  if (const std::optional<Value> nodes = map.optional(keys.nodes.name))
    gpu_group(cluster, *nodes).nodes = keys.nodes.form.read(*nodes);
  if (const std::optional<Value> gpus = map.optional(keys.gpus_per_node.name)) {
    Node& node = gpu_group(cluster, *gpus).node;
    const int count = keys.gpus_per_node.form.read(*gpus);
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
  Cluster cluster = read_used(of_cluster().use.required_in(map));
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
  cluster.name = of_cluster().name.in(map).value_or(cluster.name);
  read_part([&] { finish(map, cluster); }, is_known);
  return cluster;
}

}  // namespace

std::vector<Key> cluster_key_lines() { return of_cluster().lines(); }

Cluster read_cluster(const Value& value) {
  if (value.is_scalar())
    value.mistake(fmt::format("expected a map; got \"{}\"", value.shown()),
                  fmt::format("write {{use: {}}}", value.shown()));
  const bool used = value.is_map() && value.as_map().has("use");
  return used ? read_use(value) : read_inline(value, "inline");
}

}  // namespace rehearse::inline cluster
