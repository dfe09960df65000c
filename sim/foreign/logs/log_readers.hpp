#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "foreign/logs/import_log.hpp"
#include "foreign/logs/log_lines.hpp"

namespace rehearse::inline foreign {

constexpr double kMebi = 1048576.0, kGibi = 1073741824.0;

/// Keeps the larger of the two, in units of `factor`.
void raise(std::optional<double>& highest, std::optional<double> value, double factor);
/// A number of a JSON object; 0 where it has none of that key.
double number_at(const nlohmann::json& map, const char* key);

/// Labels of a framework's lines; null: it has none of these.
struct LabelledLog {
  const char *step_ms, *step_s;  ///< of the time of a step
  const char* tokens;            ///< a second, of one GPU
  const char* steps_per_s;
  const char *tflops, *batch;
};

// Each adds what the lines of one framework tell. InputError at what cannot be read.
void read_megatron(Lines& lines, TrainingLog& log);
void read_nemo(Lines& lines, TrainingLog& log);
void read_torchtitan(Lines& lines, TrainingLog& log);
void read_deepspeed(Lines& lines, TrainingLog& log);
void read_mlperf(Lines& lines, TrainingLog& log);
void read_torchtune(Lines& lines, TrainingLog& log);
void read_composer(Lines& lines, TrainingLog& log);
void read_litgpt(Lines& lines, TrainingLog& log);
void read_modded_nanogpt(Lines& lines, TrainingLog& log);
void read_metric_logger(Lines& lines, TrainingLog& log);
void read_labelled(Lines& lines, const LabelledLog& labels, TrainingLog& log);
void read_trainer(std::string_view text, const std::string& name, TrainingLog& log);
void read_gpu_table(Lines& lines, TrainingLog& log);
void read_history(Lines& lines, TrainingLog& log);

}  // namespace rehearse::inline foreign
