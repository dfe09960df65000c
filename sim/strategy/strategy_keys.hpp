#pragma once

#include <vector>

#include "config/key.hpp"

namespace rehearse::inline strategy {

// Keys of the strategies that have a list of fields, without the section's own name.
std::vector<Key> fsdp_keys();
std::vector<Key> megatron_fsdp_keys();
std::vector<Key> parameter_server_keys();
std::vector<Key> local_sgd_keys();

}  // namespace rehearse::inline strategy
