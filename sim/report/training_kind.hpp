#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/common_errors.hpp"

namespace rehearse::inline report {

/// What a training's loss goes by, beside its length.
struct TrainingKind {
  double batch = 0;        ///< samples of a step
  std::string method;      ///< "" where all gradients are applied in step
  std::string format;      ///< a narrow one's name; "" for 16 and 32 bits
  double like_tokens = 0;  ///< equal loss to so much plain training is asked; 0: it is not
  bool takes_tokens = false;
  bool to_a_target = false;  ///< the length is what comes to an accuracy
};
TrainingKind training_kind(const Report& report);
/// Of a `rehearse.report/1`; what it lacks is taken for plain.
TrainingKind training_kind(const nlohmann::json& report);

/// "batches of 256 and 1024 samples, nvfp4": in what two train unlike each other where neither asks
/// for equal loss; empty where they do not.
std::string unlike_training(const TrainingKind& first, const TrainingKind& second);
/// The line that says what a comparison of unlike trainings leaves out; empty where nothing is.
std::string left_out_line(const std::vector<TrainingKind>& compared);

/// What moves the length of the training, by what costs it tokens: shifts of ln as those of its
/// step.
ErrorShifts loss_shifts(const std::optional<LossCost>& loss);
ErrorShifts loss_shifts(const nlohmann::json& report);
ErrorShifts with(ErrorShifts shifts, const ErrorShifts& more);

}  // namespace rehearse::inline report
