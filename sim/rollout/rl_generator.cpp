#include "rollout/rl_generator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace rehearse::inline rollout {
namespace {

/// Share of a GPU that a generator beside a trainer takes where nobody says (NeMo-RL's recipes:
/// vllm_cfg.gpu_memory_utilization = 0.6).
constexpr double kColocatedMemory = 0.6;

}  // namespace

Cluster generator_cluster(const RlOptions& options, const Cluster& trainer) {
  if (options.generator.colocated()) return trainer;
  Cluster cluster = trainer;
  cluster.groups.resize(1);
  cluster.groups.front().nodes = static_cast<int>(options.generator.nodes);
  return cluster;
}

Generator make_generator(const RlOptions& options, const Scenario& trainer) {
  const GeneratorOptions& asked = options.generator;
  const Engine engine = read_engine(asked.engine);
  const Cluster cluster = generator_cluster(options, trainer.cluster);
  const Serving serving{.tensor_parallel = asked.tensor_parallel,
                        .attention_data_parallel = asked.attention_data_parallel,
                        .expert_parallel = asked.expert_parallel,
                        .format = asked.format,
                        .eager = asked.eager,
                        .host = asked.host};
  const double share = asked.memory.value_or(asked.colocated() ? kColocatedMemory : engine.memory);
  Generator generator{.model = DecodeModel(*trainer.transformer, cluster, engine, serving),
                      .memory = share};
  const auto ranks = static_cast<std::size_t>(serving.ranks());
  if (cluster.gpu_count() % ranks != 0)
    throw std::invalid_argument(
        fmt::format("copies of {} GPUs do not divide {}", ranks, cluster.gpu_count()));
  generator.copies =
      cluster.gpu_count() / ranks * static_cast<std::size_t>(asked.attention_data_parallel);
  double sequence = longest(options.lengths);
  const auto prompt = static_cast<double>(options.lengths.prompt.limit),
             response = static_cast<double>(options.lengths.response.limit);
  const bool cut = prompt > 0 && response > 0;
  generator.model.check_positions(cut ? sequence
                                      : std::max({total(options.lengths).mean, prompt, response}));
  if (generator.model.positions() > 0) sequence = std::min(sequence, generator.model.positions());
  generator.longest = sequence;
  const Bytes of_longest = generator.model.cache_of(sequence);
  generator.places = generator.model.cache_memory(share) / of_longest * sequence;
  if (generator.places < sequence)
    throw std::invalid_argument(fmt::format(
        "the weights take {} of a GPU, and {:.0f} % of its {} leave no place for a sequence of "
        "{:.0f} tokens",
        format(generator.model.weights()), 100 * share, format(generator.model.gpu().memory),
        sequence));
  return generator;
}

std::string what_serves(const RlOptions& options, const Scenario& trainer) {
  const auto serves = [&](const auto& change) {
    RlOptions changed = options;
    change(changed);
    try {
      make_generator(changed, trainer);
      return true;
    } catch (const std::invalid_argument&) {
      return false;
    }
  };
  constexpr int kMostRanks = 64;
  for (int ranks = 1; ranks <= kMostRanks; ranks *= 2)
    if (serves([&](RlOptions& one) { one.generator.tensor_parallel = ranks; }))
      return fmt::format("generator: {{tensor_parallel: {}}}", ranks);
  for (const double share : {0.7, 0.8, 0.9})
    if (serves([&](RlOptions& one) { one.generator.memory = share; }))
      return fmt::format("generator: {{memory: {}}}", share);
  for (const std::string& engine : engine_names())
    if (serves([&](RlOptions& one) { one.generator.engine = engine; }))
      return fmt::format("generator: {{engine: {}}}", engine);
  for (const std::string& format : served_formats())
    if (serves([&](RlOptions& one) { one.generator.format = parse_served_format(format); }))
      return fmt::format("generator: {{format: {}}}", format);
  const RlLengths& lengths = options.lengths;
  const double most = std::floor(longest(lengths) / 2);
  if (serves([&](RlOptions& one) {
        one.lengths.prompt.limit = std::min(lengths.prompt.limit, most);
        one.lengths.response.limit = most;
      }))
    return fmt::format("lengths: {{response: {{mean: {:g}, limit: {:.0f}}}}}",
                       lengths.response.mean, most);
  return "another model, other GPUs or more nodes: no single change of rl.generator serves";
}

std::vector<Request> requests_of(const RlOptions& options, double most, std::uint64_t seed,
                                 std::int64_t step) {
  const auto prompts = static_cast<std::size_t>(options.prompts);
  const auto of_prompt = static_cast<std::size_t>(options.generations);
  const auto at = static_cast<std::uint64_t>(step);
  const std::vector<double> prompt = draw(options.lengths.prompt, prompts, seed, "rl prompts", at);
  const std::vector<double> response =
      draw(options.lengths.response, prompts * of_prompt, seed, "rl responses", at);
  std::vector<Request> requests;
  for (std::size_t i = 0; i < response.size(); ++i)
    requests.push_back({.prompt = std::min(prompt[i / of_prompt], most - 1),
                        .response = std::clamp(most - prompt[i / of_prompt], 1.0, response[i]),
                        .group = static_cast<std::size_t>(step) * prompts + i / of_prompt});
  return requests;
}

}  // namespace rehearse::inline rollout
