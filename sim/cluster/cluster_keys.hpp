#pragma once

#include <vector>

#include "config/key.hpp"

namespace rehearse::inline cluster {

// Keys of a cluster's parts that have a list of fields, without the part's own name.
std::vector<Key> nccl_keys();
std::vector<Key> gloo_keys();
std::vector<Key> cluster_key_lines();
std::vector<Key> node_keys();
std::vector<Key> gpu_keys();
std::vector<Key> architecture_keys();
std::vector<Key> fabric_keys();

}  // namespace rehearse::inline cluster
