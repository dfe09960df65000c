#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rollout/batcher.hpp"
#include "rollout/rl_options.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline rollout {

/// The engines of a step, and what they hold.
struct Generator {
  DecodeModel model;
  std::size_t copies = 0;  ///< tensor groups
  double places = 0;       ///< tokens of a tensor group's cache
  double memory = 0;       ///< share of a GPU
  double longest = 0;      ///< tokens of the longest sequence
};

/// The GPUs that generate: the trainer's, or nodes like its first group's.
Cluster generator_cluster(const RlOptions& options, const Cluster& trainer);
/// std::invalid_argument where copies do not fit onto these GPUs, or sequences into their caches.
Generator make_generator(const RlOptions& options, const Scenario& trainer);
/// The first single change with which make_generator() has copies, as a remedy.
std::string what_serves(const RlOptions& options, const Scenario& trainer);
/// The prompts and responses of a step, drawn from the seed, of `most` tokens together.
std::vector<Request> requests_of(const RlOptions& options, double most, std::uint64_t seed,
                                 std::int64_t step);

}  // namespace rehearse::inline rollout
