#pragma once

#include <vector>

#include "config/key.hpp"

namespace rehearse::inline strategy {

// Keys of the strategies, without the section's own name.
std::vector<Key> layout_key_lines();
std::vector<Key> pipeline_keys();
std::vector<Key> ddp_keys();
std::vector<Key> zero_keys();
std::vector<Key> fsdp2_keys();
std::vector<Key> fsdp_keys();
std::vector<Key> megatron_fsdp_keys();
std::vector<Key> parameter_server_keys();
std::vector<Key> local_sgd_keys();

}  // namespace rehearse::inline strategy
