// What Hugging Face's Trainer and ms-swift print and write.
#include "foreign/logs/log_readers.hpp"

#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/number.hpp"
#include "config/json/json_text.hpp"

namespace rehearse::inline foreign {
namespace {

/// The batch that rates of samples and of steps tell, where they have digits enough for it.
void tell_batch(double samples, double steps, TrainingLog& log) {
  constexpr double kLastDigit = 0.0005, kPadding = 0.05;
  const double batch = samples / steps;
  if (batch * kLastDigit / steps > 0.5) return;
  log.global_batch = std::llround(batch);
  log.batch_error = kPadding;  // the last batch of an epoch is smaller
}

/// The time of a step in a bar of tqdm: "[02:49<06:00,  1.69s/it]", or "2.1it/s".
std::optional<double> bar_time(const std::string& line) {
  const std::size_t begin = line.find('[');
  for (const auto& [unit, inverse] : {std::pair("s/it", false), std::pair("it/s", true)}) {
    const std::size_t end = line.find(unit, begin == std::string::npos ? line.size() : begin);
    if (end == std::string::npos || line.find('<', begin) > end) continue;
    const std::size_t digits = line.find_last_of(" ,", end) + 1;
    const auto number = decimal_number(line.substr(digits, end - digits));
    if (number && *number > 0) return inverse ? 1 / *number : *number;
  }
  return std::nullopt;
}

/// Seconds of "3:55:01", "1m 21s" or "2h 3m 4s".
std::optional<double> clock_of(const std::string& text) {
  static const std::map<char, double> kUnits = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
  double all = 0, number = 0;
  for (const char c : text) {
    const auto unit = kUnits.find(c);
    if (c >= '0' && c <= '9') {
      number = 10 * number + (c - '0');
    } else if (c == ':') {
      all = 60 * (all + number);
      number = 0;
    } else if (unit != kUnits.end()) {
      all += unit->second * number;
      number = 0;
    } else if (c != ' ') {
      return std::nullopt;
    }
  }
  return text.empty() ? std::nullopt : std::optional(all + number);
}

/// "281/873 [25:36<52:46, 5.35s/it]" and "'global_step/max_steps': '5/16', ... 'elapsed_time': '1m
/// 21s'".
void tell_progress(const std::string& line, Progress& progress) {
  const auto behind = [&](std::string_view label, std::string_view ends) {
    const std::size_t at = line.find(label);
    if (at == std::string::npos) return std::string();
    const std::size_t begin = line.find_first_not_of("'\": ", at + label.size());
    if (begin == std::string::npos) return std::string();
    return line.substr(begin, line.find_first_of(ends, begin) - begin);
  };
  std::string count = behind("global_step/max_steps", "'\\\""),
              clock = behind("elapsed_time", "'\",}");
  const std::size_t open = line.find('['), less = line.find('<', open);
  const std::size_t slash = open == std::string::npos ? open : line.rfind('/', open);
  if (count.empty() && slash != std::string::npos && less != std::string::npos) {
    const std::size_t digits = line.find_last_not_of("0123456789", slash - 1) + 1;
    count = line.substr(digits, open - digits);
    clock = line.substr(open + 1, less - open - 1);
  }
  double step = 0, total = 0;
  const auto seconds = clock_of(clock);
  if (seconds && std::sscanf(count.c_str(), "%lf/%lf", &step, &total) == 2)
    progress.tell(step, total, *seconds);
}

}  // namespace

/// The entry that tells how long all of it took, as trainer_state.json, train_results.json and what
/// is printed have it; else the bars.
void read_trainer(std::string_view text, const std::string& name, TrainingLog& log) {
  Lines lines(text, name);
  std::string line;
  const auto take = [&](double steps, double samples) {
    if (steps > 0) log.step_times.push_back(1 / steps);
    if (samples > 0) log.samples_per_s.push_back(samples);
    if (steps > 0 && samples > 0) tell_batch(samples, steps, log);
  };
  const auto take_entry = [&](const nlohmann::json& entry) {
    take(number_at(entry, "train_steps_per_second"), number_at(entry, "train_samples_per_second"));
  };
  const nlohmann::json state = tried_json(std::string(text));
  if (state.is_object() && state.contains("log_history")) {
    lines.next(line);
    if (!state["log_history"].is_array()) lines.fail(line, 0, "no list log_history");
    for (const nlohmann::json& entry : state["log_history"])
      if (entry.is_object()) take_entry(entry);
    return;
  }
  if (state.is_object()) return take_entry(state);
  std::vector<double> bars;
  Progress progress;
  double steps = 0, samples = 0;
  while (lines.next(line)) {
    tell_progress(line, progress);
    if (const auto rate = labelled(lines, line, "train_steps_per_second", true)) steps = *rate;
    if (const auto rate = labelled(lines, line, "train_samples_per_second", true)) samples = *rate;
    if (const auto batch = labelled(lines, line, "distributed & accumulation)"))
      log.global_batch = static_cast<std::int64_t>(*batch);
    if (const auto bar = bar_time(line)) bars.push_back(*bar);
    for (const char* label : {"'memory(GiB)'", "\"memory(GiB)\""})
      raise(log.reserved_bytes, labelled(lines, line, label, true), kGibi);
    for (const char* label : {"'train_speed(iter/s)'", "\"train_speed(iter/s)\""})
      if (const auto rate = labelled(lines, line, label, true)) log.step_times.push_back(1 / *rate);
    for (const char* label : {"'train_speed(s/it)'", "\"train_speed(s/it)\""})
      if (const auto time = labelled(lines, line, label, true)) log.step_times.push_back(*time);
  }
  // A rate since the start is that of the warm-up, too; the clock tells each stretch's own.
  if (!log.step_times.empty() && !progress.times().empty()) log.step_times = progress.times();
  if (!log.step_times.empty()) return;
  const bool printed = log.global_batch.has_value();
  const auto head = log.global_batch;
  // Rates have three digits behind the point: 0.005 steps a second may be 182 s or 222.
  constexpr double kLastDigit = 0.0005, kKnown = 0.01;
  const bool rounded = steps > 0 && kLastDigit / steps > kKnown && !progress.times().empty();
  if (steps > 0 || samples > 0) {
    take(rounded ? 0 : steps, samples);
    if (rounded) log.step_times = progress.times();
    if (rounded) log.samples_per_s.clear();
    if (printed) {
      log.global_batch = head;
      log.batch_error = 0;
    }
  } else {
    log.step_times = progress.times().empty() ? bars : progress.times();
  }
}

}  // namespace rehearse::inline foreign
