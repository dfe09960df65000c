#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cluster/cluster.hpp"
#include "config/document.hpp"

namespace rehearse::inline cluster {

// Readers of a cluster's parts, for read_cluster alone. Each throws InputError at the place that is
// wrong.

/// Shares that kernels reach: {matrix, matrix_fp32, matrix_memory, attention, memory, launch,
/// source} or the name of a relative in platforms/gpus.yaml that says it itself.
KernelShares read_kernel_shares(const Value& value);

/// A file that `rehearse calibrate kernels` wrote becomes that of the cluster's GPUs, all of one
/// kind.
void read_measured_kernels(const Value& value, Cluster& cluster);

/// platforms/kernels/NAME.yaml, of a GPU's own name; null: there are none.
std::shared_ptr<const KernelCurves> known_curves(const std::string& name);

/// One machine. Where `needs_network` is false (the cluster's only node) `nic` may be missing: nics
/// is 0 then.
Node read_node(const Value& value, bool needs_network);
/// `usd_per_hour: 32.77` (on demand) or `{on_demand: 32.77, reserved: 20.1, spot: 11.3}`, of one
/// node.
NodePrices read_own_prices(const Value& value);
/// The row of platforms/prices.yaml; nothing: no price of that cluster is published.
std::optional<NodePrices> shipped_prices(const std::string& name);
/// The same, for the nodes with GPUs whose price nobody says.
void take_shipped_prices(const std::string& name, Cluster& cluster);
/// The speed of GPUs, times that of their kind: a thousandth to a thousand.
double read_speed(const Value& value);
/// The cores of a node's CPUs: one or more.
int read_cores(const Value& value);
/// The number of NICs of a node with so many GPUs: each serves one GPU or more.
int read_nics(const Value& value, int gpus);

/// `amazon`, `google` or `other`.
NicVendor read_nic_vendor(const Value& value);

/// A fabric of exactly `nodes` nodes.
Fabric read_fabric(const Value& value, std::size_t nodes);
/// Number of nodes that a fabric has places for; nothing where any number goes (star).
std::optional<std::size_t> fabric_nodes(const Fabric& fabric);
/// "fat-tree", "torus": the fabric's kind, for messages.
std::string fabric_name(const Fabric& fabric);

/// Cluster::measured_steps: a list of {mechanism: share}, of the mechanisms of times in
/// platforms/intervals.yaml.
std::vector<std::map<std::string, double>> read_measured_steps(const Value& value);

/// The file of calibrated collective costs that `comm_profile:` names: one of
/// platforms/profiles/comm, or a .yaml file of the user's own, from where the value stands. Empty
/// for `none`.
std::string read_comm_profile_file(const Value& value);
/// The folder of compute profiles that a GPU's `profiles:` names, from where the value stands.
std::string read_compute_profiles_folder(const Value& value);

/// The description of a cluster in a file of platforms/clusters; nothing: it is in none.
std::optional<Value> shipped_cluster(const std::string& name);

}  // namespace rehearse::inline cluster
