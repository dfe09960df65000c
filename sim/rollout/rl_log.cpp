#include "rollout/rl_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "base/error.hpp"
#include "base/number.hpp"

namespace rehearse::inline rollout {
namespace {

using Member = std::optional<double> RlLog::*;

struct Label {
  std::string_view name;
  Member to;
  bool adds = false;  ///< several labels of a step add up
};

/// verl: trainer/ppo/ray_trainer.py, metric_utils.py; NeMo-RL: algorithms/grpo.py's timer and its
/// "Timing" lines; TRL: trainer/grpo_trainer.py.
constexpr std::array<Label, 30> kLabels = {{
    {"timing_s/step", &RlLog::step},
    {"timing_s/gen", &RlLog::generation},
    {"timing_s/old_log_prob", &RlLog::log_probs},
    {"timing_s/ref", &RlLog::reference},
    {"timing_s/update_actor", &RlLog::training, true},
    {"timing_s/update_critic", &RlLog::training, true},
    {"timing_s/reward", &RlLog::reward},
    {"timing_s/reshard", &RlLog::refit},
    {"timing_s/update_weights", &RlLog::refit},
    {"timing_s/param_sync", &RlLog::refit},
    {"prompt_length/mean", &RlLog::prompt},
    {"response_length/mean", &RlLog::response},
    {"Total step time", &RlLog::step},
    {"generation", &RlLog::generation},
    {"policy_and_reference_logprobs", &RlLog::scores},
    {"policy_training", &RlLog::training},
    {"prepare_for_generation/total", &RlLog::refit},
    {"weight_sync", &RlLog::refit},
    {"reward_calculation", &RlLog::reward},
    {"Mean Generation Length", &RlLog::response},
    {"timing/train/total_step_time", &RlLog::step},
    {"timing/train/generation", &RlLog::generation},
    {"timing/train/policy_and_reference_logprobs", &RlLog::scores},
    {"timing/train/policy_training", &RlLog::training},
    {"timing/train/prepare_for_generation/total", &RlLog::refit},
    {"timing/train/weight_sync", &RlLog::refit},
    {"train/mean_gen_tokens_per_sample", &RlLog::response},
    {"completions/mean_length", &RlLog::response},
    {"step_time", &RlLog::step},
    {"profiling/Time taken: GRPOTrainer.transformers.generate", &RlLog::generation},
}};

bool is_of_name(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '/';
}

/// The number after a label and its separator, in a line; nothing where it is not there.
std::optional<double> value_in(std::string_view line, std::string_view label) {
  for (std::size_t at = line.find(label); at != line.npos; at = line.find(label, at + 1)) {
    if (at > 0 && is_of_name(line[at - 1])) continue;
    std::size_t begin = at + label.size();
    if (begin < line.size() && is_of_name(line[begin])) continue;
    begin = line.find_first_not_of("'\" \t", begin);
    if (begin == line.npos || (line[begin] != ':' && line[begin] != '=')) continue;
    begin = line.find_first_of("0123456789", begin);
    constexpr std::size_t kFar = 24;  // ": np.float64("
    if (begin == line.npos || begin > at + label.size() + kFar) continue;
    if (line.substr(begin, 3) == "64(") begin += 3;
    std::size_t end = begin;
    while (end < line.size() && (std::isdigit(static_cast<unsigned char>(line[end])) != 0 ||
                                 line[end] == '.' || line[end] == 'e'))
      ++end;
    return decimal_number(line.substr(begin, end - begin));
  }
  return std::nullopt;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view unquoted(std::string_view cell) {
  while (!cell.empty() && (cell.back() == '\r' || cell.back() == '"')) cell.remove_suffix(1);
  while (!cell.empty() && cell.front() == '"') cell.remove_prefix(1);
  return cell;
}

using Series = std::array<std::vector<double>, kLabels.size()>;

Series of_table(const std::vector<std::string_view>& lines) {
  Series series;
  const std::vector<std::string_view> titles = split(lines.front(), ',');
  for (std::size_t row = 1; row < lines.size(); ++row) {
    const std::vector<std::string_view> cells = split(lines[row], ',');
    for (std::size_t column = 0; column < std::min(titles.size(), cells.size()); ++column)
      for (std::size_t i = 0; i < kLabels.size(); ++i)
        if (unquoted(titles[column]) == kLabels[i].name)
          if (const auto value = decimal_number(unquoted(cells[column])))
            series[i].push_back(*value);
  }
  return series;
}

Series of_lines(const std::vector<std::string_view>& lines) {
  Series series;
  for (const std::string_view line : lines)
    for (std::size_t i = 0; i < kLabels.size(); ++i)
      if (const auto value = value_in(line, kLabels[i].name)) series[i].push_back(*value);
  return series;
}

/// Of the second half: engines and compilers warm up in the first.
double median_of(const std::vector<double>& all) {
  std::vector<double> late(all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  const auto middle = late.begin() + static_cast<std::ptrdiff_t>(late.size() / 2);
  std::ranges::nth_element(late, middle);
  return *middle;
}

std::string whose(std::string_view text) {
  if (text.find("timing_s/") != text.npos) return "a log of verl";
  if (text.find("policy_training") != text.npos) return "a log of NeMo-RL";
  if (text.find("completions/mean_length") != text.npos) return "a log of TRL";
  return "";
}

}  // namespace

std::optional<RlLog> read_rl_log(std::string_view text, const std::string& name) {
  RlLog log;
  log.what = whose(text);
  if (log.what.empty()) return std::nullopt;
  const std::vector<std::string_view> lines = split(text, '\n');
  const bool is_table = split(lines.front(), ',').size() > 2 && whose(lines.front()) == log.what &&
                        lines.front().find(':') == std::string_view::npos;
  const Series series = is_table ? of_table(lines) : of_lines(lines);
  for (std::size_t i = 0; i < kLabels.size(); ++i) {
    if (series[i].empty()) continue;
    std::optional<double>& to = log.*kLabels[i].to;
    const double value = median_of(series[i]);
    to = to && kLabels[i].adds ? *to + value : value;
    log.steps = std::max(log.steps, series[i].size());
  }
  if (!log.step)
    throw InputError(
        fmt::format("{}: error: {} says nowhere how long a step takes\n"
                    "remedy: a line with timing_s/step (verl), Total step time "
                    "(NeMo-RL) or step_time (TRL)",
                    name, log.what));
  return log;
}

namespace {

double phase_of(const RlReport& report, std::string_view wanted) {
  double sum = 0;
  for (const RlPhase& phase : report.phases)
    if (phase.name.starts_with(wanted)) sum += phase.time.value();
  return sum;
}

/// A calibration in the making: the document with the changes so far.
class Changing {
 public:
  Changing(const Document& document, RlCalibration& made) : document_(document), made_(made) {}
  void change(std::string text) { made_.changes.push_back(std::move(text)); }
  RlReport report() const {
    const auto document = document_.with_overrides(made_.changes);
    const RlQuestion question = read_rl_question(made_.changes.empty() ? document_ : *document);
    return rl_step(question, play_trainer(question, false));
  }

 private:
  const Document& document_;
  RlCalibration& made_;
};

void set_lengths(const RlOptions& options, const RlLog& log, Changing& changing) {
  const auto set = [&](const char* of, const Lengths& had, const std::optional<double>& mean) {
    if (!mean) return;
    changing.change(fmt::format("rl.lengths.{}.mean={:.6g}", of, *mean));
    if (had.deviation > 0)
      changing.change(
          fmt::format("rl.lengths.{}.deviation={:.6g}", of, had.deviation * *mean / had.mean));
  };
  set("prompt", options.lengths.prompt, log.prompt);
  set("response", options.lengths.response, log.response);
}

struct Part {
  const char* name;
  std::string_view phase;
  std::optional<double> measured;
};

std::vector<Part> parts_of(const RlLog& log) {
  std::optional<double> scores = log.scores;
  if (!scores && (log.log_probs || log.reference))
    scores = log.log_probs.value_or(0) + log.reference.value_or(0);
  return {{"generation", "generation", log.generation},
          {"training", "training", log.training},
          {"forward passes", "", scores},
          {"refit", "refit", log.refit}};
}

double predicted(const RlReport& report, const Part& part) {
  if (!part.phase.empty()) return phase_of(report, part.phase);
  return phase_of(report, "log-probabilities") + phase_of(report, "reference");
}

}  // namespace

RlCalibration calibrate_rl(const Document& document, const RlLog& log) {
  RlCalibration made;
  Changing changing(document, made);
  const RlReport before = changing.report();
  set_lengths(before.options, log, changing);
  if (log.refit) changing.change(fmt::format("rl.refit.time={:.6g}s", *log.refit));
  if (log.reward) changing.change(fmt::format("rl.reward={:.6g}s", *log.reward));
  const RlReport with_lengths = changing.report();
  const std::vector<Part> parts = parts_of(log);
  for (const Part& part : parts) {
    const double now = predicted(with_lengths, part);
    if (!part.measured || now <= 0) continue;
    const double ratio = *part.measured / now;
    const std::string_view name = part.name;
    if (name == "training")
      changing.change(
          fmt::format("rl.measured.training={:.6g}", before.options.measured.training * ratio));
    if (name == "forward passes")
      changing.change(
          fmt::format("rl.measured.forward={:.6g}", before.options.measured.forward * ratio));
    if (name != "generation" || !before.options.generator.colocated()) continue;
    // The longest copy's steps each wait for the host a little more.
    const double steps = with_lengths.counts.steps / static_cast<double>(with_lengths.copies);
    const double host = before.options.generator.host.value() + (*part.measured - now) / steps;
    if (host < 0) {
      made.left.push_back(fmt::format(
          "generation took {:.4g} s and is predicted to take {:.4g} s: no host is that fast; look "
          "at rl.generator and at the deviation and limit of rl.lengths.response",
          *part.measured, now));
      continue;
    }
    // Generation is linear in it, with the slope that a first try has.
    const double had = before.options.generator.host.value();
    const auto with = [](double seconds) {
      return fmt::format("rl.generator.host={:.6g}us", 1e6 * seconds);
    };
    changing.change(with(host));
    const double tried = predicted(changing.report(), part);
    if (std::abs(tried - now) > 0)
      made.changes.back() = with(had + (*part.measured - now) * (host - had) / (tried - now));
  }
  const RlReport after = changing.report();
  for (const Part& part : parts)
    if (part.measured && predicted(before, part) > 0)
      made.parts.push_back(
          {part.name, *part.measured, predicted(before, part), predicted(after, part)});
  if (log.step) made.parts.push_back({"step", *log.step, before.step.value(), after.step.value()});
  return made;
}

}  // namespace rehearse::inline rollout
