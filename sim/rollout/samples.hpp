#pragma once

#include "config/document.hpp"
#include "rollout/rl_options.hpp"
#include "scenario/scenario.hpp"

namespace rehearse::inline rollout {

/// Tokens of an update that the fullest of `replicas` trains on, the mean over a step's updates.
/// Where tokens are dealt equally it is their mean; where sequences are, lengths are drawn.
double fullest_tokens(const RlOptions& options, double replicas, std::uint64_t seed);

/// A trainer with its samples, and the changes of the file that made them.
struct Trainer {
  Scenario scenario;
  std::vector<std::string> changes = {};
};

/// The training of a step. `model.sequence` is the most that a sample holds. Packed, a replica's
/// tokens of an update fill as few samples as they can, equally; a pipeline's samples are padded to
/// that most (NeMo-RL: megatron/data.py, pad_full_seq_to). Padded, each sequence is as long as its
/// limits. InputError at what is wrong.
Trainer read_trainer(const Document& document, const RlOptions& options);

/// Samples of an update, of all replicas, that are no padding.
double samples_of_update(const RlOptions& options, const Scenario& trainer);
/// Micro-batches of an update, so that the fullest replica's samples are trained on; sets them.
/// `model.batch_per_gpu` is the most that one holds: they share the samples equally.
int set_micro_batches(const RlOptions& options, Scenario& trainer);

/// Whether a reference is a copy of the policy, which without adapters it is not.
bool copies_policy(const RlOptions& options, const Scenario& trainer);
/// The assumption about where the reference is.
std::string reference_note(const RlOptions& options, const Scenario& trainer);

}  // namespace rehearse::inline rollout
