#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "config/json/json_text.hpp"
#include "rollout/rl_step.hpp"

namespace rehearse::inline rollout {
namespace {

std::string gpus_of(const RlReport& report) {
  if (!generates(report.options.algorithm)) return fmt::format("{} GPUs", report.trainer_gpus);
  if (report.options.generator.colocated())
    return fmt::format("{} GPUs, which train and generate in turn", report.trainer_gpus);
  return fmt::format("{} GPUs train, {} generate", report.trainer_gpus, report.generator_gpus);
}

double tokens_per_second(const RlReport& report) { return report.tokens / report.step.value(); }

std::string lag_lines(const LagRun& lag) {
  std::string text = fmt::format(
      "age of responses   mean {:.2f} steps, at most {:.0f}:", lag.mean_age, lag.most_age);
  for (std::size_t age = 0; age < lag.ages.size(); ++age)
    if (lag.ages[age] >= 0.005) text += fmt::format("  {}: {:.0f} %", age, 100 * lag.ages[age]);
  text += fmt::format("\nwaiting            the trainer {} of a step, the generator {}\n",
                      format(lag.trainer_waits), format(lag.generator_waits));
  return text;
}

std::string generation_lines(const RlReport& report) {
  const BatcherCounts& counts = report.counts;
  std::string text = fmt::format(
      "generation         {} for all responses, {} copies; at its end they wait {} in the mean\n",
      format(report.generation), report.copies, format(report.first_copy_idle));
  text += fmt::format(
      "  batch            {:.0f} sequences in the mean of {:.0f} steps a copy; cache {:.0f} tokens "
      "of {:.0f}\n",
      counts.sequence_steps / counts.steps, counts.steps / static_cast<double>(report.copies),
      counts.most_cache, report.places);
  return text;
}

/// Cents, and of less than ten of them three digits.
std::string usd_words(double usd) {
  return usd < 0.1 ? fmt::format("{:.3g}", usd) : fmt::format("{:.2f}", usd);
}

std::string trainer_line(const RlReport& report) {
  const TrainerParts& parts = report.trainer;
  const std::string batches =
      fmt::format("{} micro-batches ({:.1f} samples)", parts.micro_batches, parts.samples);
  if (report.options.algorithm == RlAlgorithm::scoring)
    return fmt::format("forward passes     {} of {}\n", format(parts.forward), batches);
  return fmt::format("update             {} of {}; forward alone {}\n", format(parts.update),
                     batches, format(parts.forward));
}

std::string memory_line(const PhaseMemory& phase) {
  const MemoryFit& fit = phase.fit;
  std::string text = fmt::format(
      "  {:<17}{}{} of {}", phase.phase, format(phase.own()),
      phase.beside > Bytes(0) ? fmt::format(" and {} that stays,", format(phase.beside)) : "",
      format(fit.capacity));
  if (fit.verdict == MemoryVerdict::at_risk && fit.interval)
    text += fmt::format("; up to {} (90 % interval)", format(fit.interval->high));
  return text + "\n";
}

}  // namespace

std::string to_terminal(const RlReport& report, const std::vector<std::string>& defaults) {
  std::string text = fmt::format("{} of {} on {}\n\n", to_string(report.options.algorithm),
                                 report.network, gpus_of(report));
  text += fmt::format("step               {}", format(report.step));
  if (report.step_interval)
    text += fmt::format(" (90 % from {} to {})", format(report.step_interval->low),
                        format(report.step_interval->high));
  text += "\n";
  text += fmt::format(
      "tokens/s           {:.0f}, {:.0f} a GPU; {} sequences of {:.0f} tokens\n",
      tokens_per_second(report), tokens_per_second(report) / static_cast<double>(report.gpus()),
      report.options.sequences(), report.tokens / static_cast<double>(report.options.sequences()));
  if (report.usd_per_hour)
    text += fmt::format("price              {} USD a step, at {:.2f} USD an hour\n",
                        usd_words(*report.usd_per_step()), *report.usd_per_hour);
  if (report.steps)
    text += fmt::format("training           {} for {} steps\n",
                        format(static_cast<double>(*report.steps) * report.step), *report.steps);
  if (const PhaseMemory* const tightest = report.tightest())
    text += fmt::format("memory             {}\n", verdict_words(tightest->fit));
  for (const PhaseMemory& phase : report.memory) text += memory_line(phase);
  text += "\n";
  for (const RlPhase& phase : report.phases)
    text += fmt::format("{:<26} {:>10} {:>5.1f} %\n", phase.name, format(phase.time),
                        100 * (phase.time / report.step));
  text += "\n" + trainer_line(report);
  if (generates(report.options.algorithm)) text += generation_lines(report);
  if (report.lag) text += lag_lines(*report.lag);
  for (const std::string& warning : report.warnings) text += "warning: " + warning + "\n";
  for (const std::string& one : report.assumptions) text += "taken: " + one + "\n";
  for (const std::string& one : defaults) text += "taken: " + one + "\n";
  return text;
}

std::string to_csv(const RlReport& report) {
  std::string text = "file,algorithm,gpus,part,seconds\n";
  const auto row = [&](const std::string& part, Seconds time) {
    text += fmt::format("{},{},{},{},{:.6g}\n", report.file, to_string(report.options.algorithm),
                        report.gpus(), part, time.value());
  };
  row("step", report.step);
  for (const RlPhase& phase : report.phases) row("\"" + phase.name + "\"", phase.time);
  return text;
}

}  // namespace rehearse::inline rollout
