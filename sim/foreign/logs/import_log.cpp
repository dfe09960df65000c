#include "foreign/logs/import_log.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "config/foreign_training.hpp"
#include "config/whole_file.hpp"
#include "foreign/logs/log_readers.hpp"

namespace rehearse::inline foreign {

TrainingLog read_log(const std::filesystem::path& file) {
  const std::string text = read_whole_file(file);
  const std::string name = file.string();
  const auto known = foreign_log(text);
  TrainingLog log;
  log.format = known ? known->format : "";
  log.what = known ? known->what : "";
  Lines lines(text, name);
  using Reader = std::function<void()>;
  const auto by_labels = [&](const LabelledLog& labels) {
    return [&lines, &log, labels] { read_labelled(lines, labels, log); };
  };
  const std::map<std::string, Reader> readers = {
      {"megatron_log", [&] { read_megatron(lines, log); }},
      {"nemo_log", [&] { read_nemo(lines, log); }},
      {"torchtitan_log", [&] { read_torchtitan(lines, log); }},
      {"deepspeed_log", [&] { read_deepspeed(lines, log); }},
      {"mlperf_log", [&] { read_mlperf(lines, log); }},
      {"trainer_log", [&] { read_trainer(text, name, log); }},
      {"torchtune_log", [&] { read_torchtune(lines, log); }},
      {"composer_log", [&] { read_composer(lines, log); }},
      {"nvidia_smi_log", [&] { read_gpu_table(lines, log); }},
      {"litgpt_log", [&] { read_litgpt(lines, log); }},
      {"history_log", [&] { read_history(lines, log); }},
      {"nanotron_log", by_labels({.step_ms = "elapsed_time_per_iteration_ms:",
                                  .step_s = nullptr,
                                  .tokens = nullptr,
                                  .steps_per_s = nullptr,
                                  .tflops = "model_tflops_per_gpu:",
                                  .batch = "global_batch_size:"})},
      {"olmo_log", by_labels({.step_ms = nullptr,
                              .step_s = nullptr,
                              .tokens = "throughput/device/tokens_per_second",
                              .steps_per_s = "throughput/device/batches_per_second",
                              .tflops = nullptr,
                              .batch = nullptr})},
      {"olmo_core_log", by_labels({.step_ms = nullptr,
                                   .step_s = nullptr,
                                   .tokens = "throughput/device/TPS",
                                   .steps_per_s = "throughput/device/BPS",
                                   .tflops = nullptr,
                                   .batch = nullptr})},
      {"nanogpt_log", by_labels({.step_ms = ", time ",
                                 .step_s = nullptr,
                                 .tokens = nullptr,
                                 .steps_per_s = nullptr,
                                 .tflops = nullptr,
                                 .batch = nullptr})},
      {"modded_nanogpt_log", [&] { read_modded_nanogpt(lines, log); }},
      {"metric_logger_log", [&] { read_metric_logger(lines, log); }},
      {"maxtext_log", by_labels({.step_ms = nullptr,
                                 .step_s = ", seconds:",
                                 .tokens = nullptr,
                                 .steps_per_s = nullptr,
                                 .tflops = "TFLOP/s/device:",
                                 .batch = nullptr})}};
  const auto reader = readers.find(log.format);
  if (reader == readers.end()) {
    std::string first;
    lines.next(first);
    lines.fail(first, 0,
               "no log that is known here: those of Megatron-LM, GPT-NeoX, NeMo, torchtitan, "
               "DeepSpeed, torchtune, Composer, MLPerf, nvidia-smi, nanotron, OLMo, litgpt, "
               "nanoGPT, modded-nanogpt, MaxText, ms-swift, torchvision, wandb's CSV and Hugging "
               "Face's Trainer");
  }
  reader->second();
  const bool tells = !log.step_times.empty() || !log.samples_per_s.empty() ||
                     !log.tokens_per_s_per_gpu.empty() || log.reserved_bytes;
  if (!tells) {
    std::string none;
    lines.fail(none, 0, "no line tells how long a step takes");
  }
  return log;
}

SteadyPart steady_part(const std::vector<double>& entries) {
  const auto quantile = [](std::vector<double> values, double share) {
    std::ranges::sort(values);
    const double at = share * static_cast<double>(values.size() - 1);
    const auto low = static_cast<std::size_t>(at);
    const std::size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
  };
  constexpr double kNear = 0.1;
  const auto half = static_cast<std::ptrdiff_t>(entries.size() / 2);
  const double late = quantile({entries.begin() + half, entries.end()}, 0.5);
  SteadyPart part;
  while (std::abs(entries[part.first] - late) > kNear * late && part.first + 1 < entries.size())
    ++part.first;
  const std::vector<double> steady(entries.begin() + static_cast<std::ptrdiff_t>(part.first),
                                   entries.end());
  part.count = steady.size();
  part.median = quantile(steady, 0.5);
  part.spread = (quantile(steady, 0.75) - quantile(steady, 0.25)) / part.median;
  return part;
}

}  // namespace rehearse::inline foreign
