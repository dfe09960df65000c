#pragma once

#include <string>
#include <vector>

#include "memory/memory.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline report {

/// A mechanism of some library that acts in a training, whoever asked for it: the user, the
/// framework, or a default.
struct ActingMechanism {
  std::string name;  ///< "logits gathered over tensor ranks"
  std::string key;   ///< what says so, with its value: "strategy.gather_logits = true"
};

/// Lists the mechanisms that act; tests/validation/open_rows/README.md says which file holds each.
/// `communicators`: what NCCL takes of a GPU outside the allocator.
std::vector<ActingMechanism> acting(const Scenario& scenario, Bytes communicators);

}  // namespace rehearse::inline report
