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

/// At most this many points of a picture.
constexpr std::size_t kPoints = 200;

/// Some of `all`, evenly, the last one too.
template <class T>
std::vector<T> thinned(const std::vector<T>& all) {
  if (all.size() <= kPoints) return all;
  std::vector<T> some;
  for (std::size_t i = 0; i < kPoints; ++i)
    some.push_back(all[i * (all.size() - 1) / (kPoints - 1)]);
  return some;
}

nlohmann::ordered_json generation_json(const RlReport& report) {
  nlohmann::ordered_json json{{"time_s", report.generation.value()},
                              {"tail_idle_s", report.first_copy_idle.value()},
                              {"copies", report.copies},
                              {"cache_tokens", report.places},
                              {"most_cache_tokens", report.counts.most_cache},
                              {"generated_tokens", report.counts.generated},
                              {"computed_tokens", report.counts.computed},
                              {"preemptions", report.counts.preemptions}};
  auto& load = json["last_copy"] = nlohmann::ordered_json::array();
  for (const CopyLoad& one : thinned(report.last_copy))
    load.push_back(
        {{"at_s", one.at.value()}, {"sequences", one.sequences}, {"cache_tokens", one.cache}});
  auto& ends = json["ends"] = nlohmann::ordered_json::array();
  std::vector<std::size_t> places(report.ends.size());
  std::iota(places.begin(), places.end(), 0);
  for (const std::size_t at : thinned(places))
    ends.push_back({{"share", static_cast<double>(at + 1) / static_cast<double>(places.size())},
                    {"at_s", report.ends[at].value()}});
  return json;
}

}  // namespace

std::string to_terminal(const RlReport& report) {
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
    text += fmt::format("price              {:.2f} USD a step, at {:.2f} USD an hour\n",
                        *report.usd_per_hour * report.step.value() / 3600, *report.usd_per_hour);
  if (!report.memory.empty())
    text += fmt::format("memory             {}\n", report.fits() ? "fits" : "does not fit");
  for (const PhaseMemory& phase : report.memory)
    text += fmt::format("  {:<17}{} and {} that stays, of {}\n", phase.phase, format(phase.own),
                        format(phase.beside), format(phase.capacity));
  text += "\n";
  for (const RlPhase& phase : report.phases)
    text += fmt::format("{:<26} {:>10} {:>5.1f} %\n", phase.name, format(phase.time),
                        100 * (phase.time / report.step));
  text += fmt::format(
      "\nupdate             {} of {} micro-batches ({:.1f} samples); forward alone {}\n",
      format(report.trainer.update), report.trainer.micro_batches, report.trainer.samples,
      format(report.trainer.forward));
  if (generates(report.options.algorithm)) text += generation_lines(report);
  if (report.lag) text += lag_lines(*report.lag);
  for (const std::string& warning : report.warnings) text += "warning: " + warning + "\n";
  for (const std::string& one : report.assumptions) text += "taken: " + one + "\n";
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

std::string to_json(const RlReport& report) {
  nlohmann::ordered_json document{{"schema", "rehearse.rollout/1"},
                                  {"scenario", report.file},
                                  {"network", report.network},
                                  {"algorithm", to_string(report.options.algorithm)},
                                  {"gpus", report.gpus()},
                                  {"trainer_gpus", report.trainer_gpus},
                                  {"generator_gpus", report.generator_gpus},
                                  {"sequences", report.options.sequences()},
                                  {"tokens", report.tokens},
                                  {"step_time_s", report.step.value()},
                                  {"tokens_per_s", tokens_per_second(report)},
                                  {"fits", report.fits()}};
  if (report.step_interval)
    document["interval"] = {{"low_s", report.step_interval->low.value()},
                            {"high_s", report.step_interval->high.value()}};
  if (report.usd_per_hour)
    document["usd_per_step"] = *report.usd_per_hour * report.step.value() / 3600;
  auto& phases = document["phases"] = nlohmann::ordered_json::array();
  for (const RlPhase& phase : report.phases)
    phases.push_back({{"phase", phase.name}, {"time_s", phase.time.value()}});
  document["trainer"] = {{"update_s", report.trainer.update.value()},
                         {"forward_s", report.trainer.forward.value()},
                         {"micro_batches", report.trainer.micro_batches},
                         {"samples", report.trainer.samples}};
  auto& memory = document["memory"] = nlohmann::ordered_json::array();
  for (const PhaseMemory& phase : report.memory)
    memory.push_back({{"phase", phase.phase},
                      {"own_bytes", phase.own.value()},
                      {"beside_bytes", phase.beside.value()},
                      {"capacity_bytes", phase.capacity.value()},
                      {"fits", phase.fits()}});
  if (generates(report.options.algorithm)) document["generation"] = generation_json(report);
  if (report.lag)
    document["staleness"] = {{"mean", report.lag->mean_age},
                             {"most", report.lag->most_age},
                             {"shares", report.lag->ages},
                             {"trainer_waits_s", report.lag->trainer_waits.value()},
                             {"generator_waits_s", report.lag->generator_waits.value()}};
  document["warnings"] = report.warnings;
  document["assumptions"] = report.assumptions;
  return json_text(document, 2) + "\n";
}

}  // namespace rehearse::inline rollout
