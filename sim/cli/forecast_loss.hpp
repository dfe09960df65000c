#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/answer.hpp"

namespace rehearse::inline cli {

/// `rehearse forecast --loss RUNS.csv`: absolute loss, from the user's own runs alone.
struct LossQuestion {
  std::filesystem::path runs;                ///< empty: none is asked
  std::optional<double> parameters, tokens;  ///< nothing: those of the largest run
};
void add_loss_question(CLI::App& app, LossQuestion& question);
void forecast_loss(const LossQuestion& question, const AnswerOptions& answer);

}  // namespace rehearse::inline cli
