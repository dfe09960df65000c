// Lines that training frameworks print.
#include "foreign/logs/log_readers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/json/json_text.hpp"

namespace rehearse::inline foreign {

void raise(std::optional<double>& highest, std::optional<double> value, double factor) {
  if (value) highest = std::max(highest.value_or(0), *value * factor);
}

double number_at(const nlohmann::json& map, const char* key) {
  const auto found = map.find(key);
  return found != map.end() && found->is_number() ? found->get<double>() : 0;
}

void read_megatron(Lines& lines, TrainingLog& log) {
  std::string line;
  while (lines.next(line)) {
    const auto milliseconds = labelled(lines, line, "elapsed time per iteration (ms):");
    // Megatron-DeepSpeed counts seconds.
    const auto seconds = labelled(lines, line, "elapsed time per iteration (s):");
    if (milliseconds || seconds) {
      log.step_times.push_back(milliseconds ? *milliseconds / 1e3 : *seconds);
      for (const char* label : {"throughput per GPU (TFLOP/s/GPU):", " TFLOPs:"})
        if (const auto flops = labelled(lines, line, label)) log.tflops_per_gpu.push_back(*flops);
      if (const auto batch = labelled(lines, line, "global batch size:"))
        log.global_batch = static_cast<std::int64_t>(*batch);
    }
    if (line.find("memory (MB)") == std::string::npos) continue;
    raise(log.allocated_bytes, labelled(lines, line, "max allocated:"), kMebi);
    raise(log.reserved_bytes, labelled(lines, line, "max reserved:"), kMebi);
  }
}

void read_nemo(Lines& lines, TrainingLog& log) {
  std::string line;
  while (lines.next(line)) {
    if (const auto time = labelled(lines, line, "train_step_timing in s"))
      log.step_times.push_back(*time);
    if (const auto batch = labelled(lines, line, "global_batch_size:"))
      log.global_batch = static_cast<std::int64_t>(*batch);
    if (line.find("TFLOPS_per_GPU:") != std::string::npos)
      log.tflops_per_gpu.push_back(*labelled(lines, line, "TFLOPS_per_GPU:"));
  }
}

void read_torchtitan(Lines& lines, TrainingLog& log) {
  std::string line;
  while (lines.next(line)) {
    if (line.find("step:") == std::string::npos || line.find("loss:") == std::string::npos)
      continue;
    const char* const rate = line.find("tps:") != std::string::npos ? "tps:" : "wps:";
    if (const auto tokens = labelled(lines, line, rate))
      log.tokens_per_s_per_gpu.push_back(*tokens);
    if (const auto flops = labelled(lines, line, "tflops:")) log.tflops_per_gpu.push_back(*flops);
    raise(log.reserved_bytes, labelled(lines, line, "memory:", true), kGibi);
  }
}

namespace {

/// Seconds of a step by DeepSpeed's wall_clock_breakdown; of 2024 on, fwd is what forward was.
std::optional<double> breakdown(const Lines& lines, const std::string& line) {
  if (line.find("time (ms) |") == std::string::npos) return std::nullopt;
  const bool is_short = line.find(" fwd: ") != std::string::npos;
  const auto forward = labelled(lines, line, is_short ? " fwd: " : " forward: ");
  const auto backward = labelled(lines, line, is_short ? " bwd: " : " backward: ");
  const auto step = labelled(lines, line, " step: ");
  if (!forward || !backward || !step) return std::nullopt;
  return (*forward + *backward + *step) / 1e3;
}

}  // namespace

/// Its rates are of all GPUs: ThroughputTimer is given train_batch_size. It says -inf until its
/// start_step. A pipeline's engine says the time of a step instead. A breakdown counts where there
/// is neither.
void read_deepspeed(Lines& lines, TrainingLog& log) {
  std::string line;
  std::vector<double> in_parts;
  while (lines.next(line)) {
    if (line.find("SamplesPerSec=-inf") != std::string::npos) continue;
    if (const auto time = labelled(lines, line, "iter time (s):")) log.step_times.push_back(*time);
    const bool current = line.find("CurrSamplesPerSec=") != std::string::npos;
    if (const auto rate = labelled(lines, line, current ? "CurrSamplesPerSec" : "SamplesPerSec"))
      log.samples_per_s.push_back(*rate);
    if (const auto all = labelled(lines, line, "MaxMemAllocated"))
      raise(log.allocated_bytes, all,
            line.find("GB", line.find("MaxMemAllocated")) != line.npos ? kGibi : kMebi);
    if (const auto time = breakdown(lines, line)) in_parts.push_back(*time);
  }
  if (log.step_times.empty() && log.samples_per_s.empty()) log.step_times = in_parts;
}

namespace {

nlohmann::json parsed(const Lines& lines, const std::string& line, std::size_t from) {
  nlohmann::json made = tried_json(line.substr(from));
  if (!made.is_object()) lines.fail(line, from, "this is no JSON object");
  return made;
}

}  // namespace

void read_mlperf(Lines& lines, TrainingLog& log) {
  std::string line;
  bool in_tokens = false;  // GPT-3's throughput
  double length = 0;
  while (lines.next(line)) {
    const std::size_t at = line.find(":::MLLOG");
    if (at == std::string::npos) continue;
    const nlohmann::json entry = parsed(lines, line, at + 8);
    const std::string key = entry.value("key", "");
    const nlohmann::json value = entry.value("value", nlohmann::json());
    if (key == "global_batch_size" && value.is_number())
      log.global_batch = value.get<std::int64_t>();
    if (key == "submission_benchmark") in_tokens = value == "gpt3";
    if (key == "max_sequence_length" && value.is_number()) length = value.get<double>();
    if (key != "tracked_stats" || !value.is_object()) continue;
    if (const double time = number_at(value, "train_step_time"); time > 0)
      log.step_times.push_back(time);
    else if (const double rate = number_at(value, "throughput"); rate > 0 && !in_tokens)
      log.samples_per_s.push_back(rate);
    else if (rate > 0 && length > 0)
      log.samples_per_s.push_back(rate / length);
  }
}

void read_torchtune(Lines& lines, TrainingLog& log) {
  std::string line;
  while (lines.next(line)) {
    if (const auto tokens = labelled(lines, line, "tokens_per_second_per_gpu:"))
      log.tokens_per_s_per_gpu.push_back(*tokens);
    raise(log.allocated_bytes, labelled(lines, line, "peak_memory_alloc:"), kGibi);
    raise(log.reserved_bytes, labelled(lines, line, "peak_memory_reserved:"), kGibi);
  }
}

/// Composer's SpeedMonitor and MemoryMonitor, whose gigabytes are of 10^9 bytes.
void read_composer(Lines& lines, TrainingLog& log) {
  constexpr double kGiga = 1e9;
  std::string line;
  while (lines.next(line)) {
    if (const auto rate = labelled(lines, line, " throughput/batches_per_sec:"))
      log.step_times.push_back(1 / *rate);
    raise(log.allocated_bytes, labelled(lines, line, " memory/peak_allocated_mem:"), kGiga);
    raise(log.reserved_bytes, labelled(lines, line, " memory/peak_reserved_mem:"), kGiga);
  }
}

void read_labelled(Lines& lines, const LabelledLog& labels, TrainingLog& log) {
  std::string line;
  const auto number = [&](const char* label) {
    return label == nullptr ? std::nullopt : labelled(lines, line, label, true);
  };
  while (lines.next(line)) {
    if (const auto time = number(labels.step_ms)) log.step_times.push_back(*time / 1e3);
    if (const auto time = number(labels.step_s)) log.step_times.push_back(*time);
    if (const auto rate = number(labels.steps_per_s)) log.step_times.push_back(1 / *rate);
    if (const auto rate = number(labels.tokens)) log.tokens_per_s_per_gpu.push_back(*rate);
    if (const auto flops = number(labels.tflops)) log.tflops_per_gpu.push_back(*flops);
    if (const auto batch = number(labels.batch)) log.global_batch = std::llround(*batch);
  }
}

/// litgpt's iterations are micro-batches: "(step)" stands behind the last one of a step.
void read_litgpt(Lines& lines, TrainingLog& log) {
  std::string line;
  double step = 0;
  while (lines.next(line)) {
    const auto time = labelled(lines, line, "iter time:", true);
    if (!time) continue;
    step += *time / 1e3;
    if (line.find("(step)") == std::string::npos) continue;
    log.step_times.push_back(step);
    step = 0;
  }
}

/// "step:10/5100 ... train_time:1418ms step_avg:141.81ms": the time is that of all steps so far.
void read_modded_nanogpt(Lines& lines, TrainingLog& log) {
  std::string line;
  Progress progress;
  double last = 0;
  while (lines.next(line)) {
    // Its own source stands above.
    if (!line.starts_with("step:")) continue;
    const auto step = labelled(lines, line, "step:", true);
    const auto time = labelled(lines, line, "train_time:", true);
    const auto average = labelled(lines, line, "step_avg:", true);
    if (!time || !step) continue;
    progress.tell(*step, 0, *time / 1e3);
    if (average && std::isfinite(*average)) last = *average / 1e3;
  }
  log.step_times = progress.times();
  if (log.step_times.empty() && last > 0) log.step_times.push_back(last);
}

/// torchvision's references and what took its MetricLogger over: MAE, DINO, LLaMA2-Accessory.
void read_metric_logger(Lines& lines, TrainingLog& log) {
  std::string line;
  while (lines.next(line)) {
    if (const auto time = labelled(lines, line, " time:", true)) log.step_times.push_back(*time);
    raise(log.allocated_bytes, labelled(lines, line, "max mem:", true), kMebi);
  }
}

}  // namespace rehearse::inline foreign
