#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rollout/rl_step.hpp"

namespace rehearse::inline rollout {

/// What a log of post-training measured: medians of its second half. Nothing: it does not say.
struct RlLog {
  std::string what;                        ///< "a log of verl"
  std::size_t steps = 0;                   ///< that the log has
  std::optional<double> prompt, response;  ///< mean tokens
  /// `scores`: all passes forward alone, where the log has no more than their sum.
  std::optional<double> step, generation, log_probs, reference, scores, training, refit, reward;
};

/// verl's metrics (`timing_s/gen:`), NeMo-RL's (`policy_training: 25.05s`), TRL's
/// (`completions/mean_length`, `step_time`), as lines or as a table whose first line names them.
/// Nothing where it is no such log. InputError where the log tells of no step.
std::optional<RlLog> read_rl_log(std::string_view text, const std::string& name);

/// A part of a step: measured, and predicted before and after.
struct RlCalibratedPart {
  std::string part;
  double measured = 0, before = 0, after = 0;  ///< seconds
};

/// Changes of a scenario with which its prediction has what a log measured, each by its own
/// mechanism: lengths, the trainer's pace, the host's time of a step of the engine, refit, reward.
struct RlCalibration {
  std::vector<std::string> changes;  ///< "rl.refit.time=5.2s"
  std::vector<RlCalibratedPart> parts;
  std::vector<std::string> left;  ///< what no change reaches, with why
};
RlCalibration calibrate_rl(const Document& document, const RlLog& log);

}  // namespace rehearse::inline rollout
