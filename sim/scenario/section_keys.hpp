#pragma once

#include <vector>

#include "config/key.hpp"

namespace rehearse::inline scenario {

// Keys of the sections that have a list of fields, without the section's own name.
std::vector<Key> optimizer_keys();
std::vector<Key> train_keys();
std::vector<Key> run_keys();
std::vector<Key> memory_keys();
std::vector<Key> energy_keys();
std::vector<Key> failure_keys();
std::vector<Key> start_keys();

}  // namespace rehearse::inline scenario
