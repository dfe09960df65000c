#pragma once

#include "cluster/cluster.hpp"
#include "config/document.hpp"

namespace rehearse::inline cluster {

// Each changes some parts of a shipped cluster by the keys beside `use`. InputError at a value that
// does not suit its machines.

void override_network(Map& map, Cluster& cluster);
/// Take the keys of NVLink and PCIe, of hosts, and of GPUs into the machines that `use` names.
void override_inner_links(Map& map, Cluster& cluster);
void override_hosts(Map& map, Cluster& cluster);
void override_gpus(Map& map, Cluster& cluster);
void override_fabric(Map& map, Cluster& cluster);

}  // namespace rehearse::inline cluster
