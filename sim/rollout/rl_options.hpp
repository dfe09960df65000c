#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/document.hpp"
#include "config/key.hpp"
#include "rollout/decode.hpp"
#include "rollout/lengths.hpp"

namespace rehearse::inline rollout {

/// Methods of post-training. Those that generate train on responses that a policy makes; those of
/// pairs on two given ones.
/// `distillation` trains on them with a teacher's probabilities; `scoring` is a forward pass alone.
enum class RlAlgorithm {
  grpo,
  dapo,
  rloo,
  reinforce_plus_plus,
  ppo,
  dpo,
  kto,
  reward,
  distillation,
  scoring
};
bool generates(RlAlgorithm algorithm);
std::string to_string(RlAlgorithm algorithm);

struct RlLengths {
  Lengths prompt, response;
};

/// Of prompt and response together; without a limit where one of them has none.
Lengths total(const RlLengths& lengths);
/// Tokens of the longest sequence: of prompt and response each its limit, or ten times its mean.
double longest(const RlLengths& lengths);

struct GeneratorOptions {
  std::string engine = "vllm";
  int tensor_parallel = 1, attention_data_parallel = 1, expert_parallel = 1;
  ServedFormat format = ServedFormat::bf16;
  bool eager = false;            ///< without CUDA graphs
  std::optional<double> memory;  ///< share of a GPU; nothing: the engine's
  std::int64_t sequences = 256;  ///< at a time, of a tensor group
  Seconds host{0};               ///< of each step, beside what the engine's own takes
  std::int64_t nodes = 0;        ///< of the cluster's kind, beside it; 0: the trainer's own GPUs
  bool sleeps = true;            ///< it gives its memory back while others compute
  bool trainer_sleeps = false;   ///< and the trainer's parameters and states go to the host
  /// A GPU moves them to the host and back at this rate; nothing: as platforms/refits.yaml has it.
  std::optional<BytesPerSecond> sleep_rate;

  bool colocated() const { return nodes == 0; }
};

/// Which responses a step trains on, of those in flight: the first that ended, or its own, which
/// began first.
enum class TakeOrder { ended, begun };

struct StalenessOptions {
  /// Steps' worth of responses that may be begun ahead of those that are trained on; whole where
  /// batches are generated whole: then none is older.
  double limit = 0;
  /// Sequences go on over a refit, and new ones start where others end; else a batch is generated
  /// whole.
  bool in_flight = false;
  TakeOrder take = TakeOrder::ended;
  bool stream = false;  ///< an update begins where its own responses are there
};

/// What an update deals equally to the trainer's replicas. Dealt sequences leave the replica with
/// the longest ones the last to end.
enum class Balance { tokens, sequences };

struct RefitOptions {
  std::optional<Seconds> time;
  std::optional<BytesPerSecond> rate;  ///< of the model's bytes in 16 bits
};

/// How long passes took in a user's own run, over what is predicted of them.
struct MeasuredPasses {
  double training = 1, forward = 1;
};

/// The section `rl:` of a scenario.
struct RlOptions {
  RlAlgorithm algorithm = RlAlgorithm::grpo;
  std::int64_t prompts = 0, generations = 1;
  RlLengths lengths;
  /// A frozen policy's log-probabilities are computed; nothing: of DPO and KTO alone.
  std::optional<bool> reference;
  bool old_log_probs = true;     ///< the policy's, before its first update
  std::string teacher;           ///< of distillation: a network by its name or config; empty: none
  std::optional<bool> critic{};  ///< values, and their own updates, as the policy's
  Seconds reward{0};             ///< of all responses, beside nothing
  std::int64_t updates = 1;      ///< of the optimizer in a step
  std::int64_t epochs = 1;       ///< over the responses
  bool packing = true;           ///< responses fill samples; else each is padded to the limit
  Balance balance = Balance::tokens;
  GeneratorOptions generator;
  StalenessOptions staleness;
  RefitOptions refit;
  MeasuredPasses measured;

  /// Sequences of a step: responses; of DPO and reward models both of each pair.
  std::int64_t sequences() const;
  bool has_reference() const;
  bool has_critic() const;  ///< as stated, else of ppo
};

/// Reads the section. InputError at the place that is wrong.
RlOptions read_rl_section(const Value& section);
/// Its lines of the reference, without the section's own name.
std::vector<Key> rl_keys();

}  // namespace rehearse::inline rollout
