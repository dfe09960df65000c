#include "foreign/import_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/number.hpp"
#include "config/foreign_training.hpp"
#include "config/json_text.hpp"
#include "config/text_source.hpp"
#include "config/whole_file.hpp"

namespace rehearse::inline foreign {
namespace {

constexpr std::size_t kMostLogBytes = std::size_t{512} << 20;
constexpr double kMebi = 1048576.0, kGibi = 1073741824.0;

/// Lines of a log with their numbers, without colours. What a progress bar overwrites by a return
/// of the carriage are lines with one number.
class Lines {
 public:
  Lines(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {}

  bool next(std::string& line) {
    if (at_ >= text_.size()) return false;
    const std::size_t end = std::min(text_.find_first_of("\r\n", at_), text_.size());
    line.assign(text_.substr(at_, end - at_));
    if (begins_) ++number_;
    const bool returns = text_.substr(end).starts_with('\r');
    begins_ = !returns || text_.substr(end).starts_with("\r\n");
    at_ = end + (returns && begins_ ? 2 : 1);
    for (std::size_t escape = line.find("\x1b["); escape != std::string::npos;
         escape = line.find("\x1b[", escape)) {
      const std::size_t m = line.find('m', escape);
      if (m == std::string::npos) break;
      line.erase(escape, m - escape + 1);
    }
    return true;
  }

  [[noreturn]] void fail(const std::string& line, std::size_t byte,
                         const std::string& message) const {
    auto source = std::make_shared<TextSource>();
    source->name = name_;
    const std::size_t before = std::max<std::size_t>(number_, 1) - 1;
    source->lines.assign(before, "");
    source->lines.push_back(line);
    fail_at({source, before, byte}, message);
  }

 private:
  std::string_view text_;
  std::string name_;
  std::size_t at_ = 0, number_ = 0;
  bool begins_ = true;  ///< whether the next one has a number of its own
};

/// The number behind a label, with commas between thousands; nothing where the label is not there.
std::optional<double> labelled(const Lines& lines, const std::string& line,
                               std::string_view label) {
  const std::size_t at = line.find(label);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t begin = line.find_first_not_of(" \t=:'", at + label.size());
  std::string digits;
  std::size_t end = begin == std::string::npos ? line.size() : begin;
  for (; end < line.size(); ++end) {
    const char c = line[end];
    const bool part = std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '+' ||
                      c == '-' || ((c == 'e' || c == 'E') && !digits.empty());
    if (c == ',' && end + 1 < line.size() &&
        std::isdigit(static_cast<unsigned char>(line[end + 1])) != 0)
      continue;
    if (!part) break;
    digits += c;
  }
  const std::optional<double> number = decimal_number(digits);
  if (!number || *number <= 0 || !std::isfinite(*number))
    lines.fail(line, at, fmt::format("no number above 0 behind \"{}\"", label));
  return number;
}

void raise(std::optional<double>& highest, std::optional<double> value, double factor) {
  if (value) highest = std::max(highest.value_or(0), *value * factor);
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
    raise(log.reserved_bytes, labelled(lines, line, "memory:"), kGibi);
  }
}

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

nlohmann::json parsed(const Lines& lines, const std::string& line, std::size_t from) {
  nlohmann::json made = tried_json(line.substr(from));
  if (!made.is_object()) lines.fail(line, from, "this is no JSON object");
  return made;
}

double number_at(const nlohmann::json& map, const char* key) {
  const auto found = map.find(key);
  return found != map.end() && found->is_number() ? found->get<double>() : 0;
}

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

/// The last entry that tells how long all of it took, as trainer_state.json, train_results.json and
/// what is printed have it.
void read_trainer(std::string_view text, const std::string& name, TrainingLog& log) {
  Lines lines(text, name);
  std::string line;
  const auto take = [&](const nlohmann::json& entry) {
    if (const double steps = number_at(entry, "train_steps_per_second"); steps > 0)
      log.step_times.push_back(1 / steps);
    if (const double samples = number_at(entry, "train_samples_per_second"); samples > 0)
      log.samples_per_s.push_back(samples);
  };
  const nlohmann::json state = tried_json(std::string(text));
  if (state.is_object() && state.contains("log_history")) {
    lines.next(line);
    if (!state["log_history"].is_array()) lines.fail(line, 0, "no list log_history");
    for (const nlohmann::json& entry : state["log_history"])
      if (entry.is_object()) take(entry);
  } else if (state.is_object()) {
    take(state);
  } else {
    while (lines.next(line)) {
      if (const auto steps = labelled(lines, line, "'train_steps_per_second':"))
        log.step_times.push_back(1 / *steps);
      if (const auto samples = labelled(lines, line, "'train_samples_per_second':"))
        log.samples_per_s.push_back(*samples);
    }
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

/// nvidia-smi's and DCGM's columns: memory alone.
void read_gpu_table(Lines& lines, TrainingLog& log) {
  std::string line;
  lines.next(line);
  const auto cells = [](const std::string& row) {
    std::vector<std::string> made;
    for (std::size_t at = 0; at <= row.size();) {
      const std::size_t end = std::min(row.find(',', at), row.size());
      std::string cell = row.substr(at, end - at);
      cell.erase(0, std::min(cell.find_first_not_of(' '), cell.size()));
      made.push_back(cell);
      at = end + 1;
    }
    return made;
  };
  const std::vector<std::string> head = cells(line);
  const auto column = std::ranges::find_if(head, [](const std::string& name) {
    return name.starts_with("memory.used") || name.find("FB_USED") != std::string::npos;
  });
  if (column == head.end()) lines.fail(line, 0, "no column memory.used");
  const auto place = static_cast<std::size_t>(column - head.begin());
  while (lines.next(line)) {
    const std::vector<std::string> row = cells(line);
    if (row.size() == 1 && row[0].empty()) continue;
    if (row.size() != head.size())
      lines.fail(line, 0, fmt::format("{} cells under {} names", row.size(), head.size()));
    const auto used = leading_number(row[place]);
    if (!used || used->value < 0) lines.fail(line, 0, "no memory in that column");
    raise(log.reserved_bytes, used->value, kMebi);
  }
}

}  // namespace

TrainingLog read_log(const std::filesystem::path& file) {
  const std::string text = read_whole_file(file);
  const std::string name = file.string();
  const auto known = foreign_log(text);
  TrainingLog log;
  log.format = known ? known->format : "";
  log.what = known ? known->what : "";
  Lines lines(text, name);
  if (log.format == "megatron_log") {
    read_megatron(lines, log);
  } else if (log.format == "nemo_log") {
    read_nemo(lines, log);
  } else if (log.format == "torchtitan_log") {
    read_torchtitan(lines, log);
  } else if (log.format == "deepspeed_log") {
    read_deepspeed(lines, log);
  } else if (log.format == "mlperf_log") {
    read_mlperf(lines, log);
  } else if (log.format == "trainer_log") {
    read_trainer(text, name, log);
  } else if (log.format == "torchtune_log") {
    read_torchtune(lines, log);
  } else if (log.format == "composer_log") {
    read_composer(lines, log);
  } else if (log.format == "nvidia_smi_log") {
    read_gpu_table(lines, log);
  } else {
    std::string first;
    lines.next(first);
    lines.fail(first, 0,
               "no log that is known here: those of Megatron-LM, NeMo, torchtitan, "
               "DeepSpeed, torchtune, Composer, MLPerf, nvidia-smi, and Hugging Face's Trainer");
  }
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
