#pragma once

#include <vector>

#include "config/key.hpp"

namespace rehearse::inline profile {

// Keys of a file of each kind, by the lists that read it.
std::vector<Key> comm_profile_keys();
std::vector<Key> compute_profile_keys();

}  // namespace rehearse::inline profile
