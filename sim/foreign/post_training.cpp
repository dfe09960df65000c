// A step of post-training, as other programs' files have it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/number.hpp"
#include "foreign/assemble.hpp"
#include "planner/typed_question.hpp"

namespace rehearse::inline foreign {
namespace {

/// The standard deviation of responses over their mean, where nobody says it: lengths of reasoning
/// are skewed.
constexpr double kDeviation = 0.75;

struct Means {
  double prompt = 0, response = 0, deviation = 0;
};

Means means_of(const Asked& asked, const std::string& name) {
  std::vector<double> numbers;
  std::size_t begin = 0;
  while (begin <= asked.lengths.size()) {
    const std::size_t end = std::min(asked.lengths.find(',', begin), asked.lengths.size());
    const auto number = decimal_number(asked.lengths.substr(begin, end - begin));
    if (!number || *number <= 0 || *number > 1e8) break;
    numbers.push_back(*number);
    begin = end + 1;
  }
  const bool whole = begin == asked.lengths.size() + 1;
  if (!whole || numbers.size() < 2 || numbers.size() > 3)
    throw InputError(
        fmt::format("{}: error: --lengths: expected mean tokens of prompts and of responses, and "
                    "at most their deviation; got \"{}\"\nremedy: --lengths 130,1060 or --lengths "
                    "130,1060,800",
                    name, asked.lengths));
  return {numbers[0], numbers[1], numbers.size() > 2 ? numbers[2] : kDeviation * numbers[1]};
}

double number_of(const Facts& facts, const std::string& name) {
  return decimal_number(value_of(facts, name)).value_or(0);
}

void say_number(Facts& facts, const std::string& name, double value) {
  say(facts, name, fmt::format("{:g}", value));
}

/// Sequences of a prompt that are trained on: responses, or both of a pair.
std::int64_t of_prompt(const Facts& facts) {
  const std::string algorithm = value_of(facts, "rl.algorithm");
  if (algorithm == "dpo" || algorithm == "reward") return 2;
  return std::max<std::int64_t>(1, count_of(facts, "rl.generations"));
}

/// verl's own defaults of `async_training`, `rollout` and `trainer`
/// (fully_async_policy/config/fully_async_ppo_trainer.yaml, ppo_trainer.yaml, volcengine/verl,
/// 2026-11). --on has all of its machines, or those that train.
void fill_stream(Facts& facts, const Asked& asked, const std::string& name) {
  if (!has(facts, "rl_streams")) return;
  for (const auto& [key, value] :
       {std::pair("rl_required", "1"), std::pair("rl_fits", "4"),
        std::pair("rl.staleness.limit", "0.1"), std::pair("rl.staleness.in_flight", "true"),
        std::pair("rl.staleness.stream", "true"), std::pair("rl.generator.nodes", "1"),
        std::pair("nodes", "1"), std::pair("rl_trainer_apart", "true"),
        std::pair("rl.old_log_probs", "false")})
    if (!has(facts, key)) say(facts, key, value);
  const std::int64_t train = count_of(facts, "nodes"),
                     generate = count_of(facts, "rl.generator.nodes");
  const std::size_t digits = asked.on.find_first_not_of("0123456789");
  if (digits == 0 || digits >= asked.on.size() || asked.on[digits] != 'x') return;
  const std::int64_t named = std::stoll(asked.on.substr(0, digits));
  if (named == train || named == train + generate) return;
  throw InputError(fmt::format(
      "{}: error: --on has {} nodes; of verl's, {} train (trainer.nnodes) and {} generate "
      "(rollout.nnodes)\nremedy: --on {}{}, or change them in the file",
      name, named, train, generate, train + generate, asked.on.substr(digits)));
}

/// Prompts of a step and updates in it: TRL's batches are of sequences, or of pairs, on each GPU.
void fill_batch(Facts& facts, const Asked& asked, const std::string& name) {
  const bool pairs = value_of(facts, "rl.algorithm") == "dpo";
  if (has(facts, "rl_of_micro")) {
    const std::int64_t all = count_of(facts, "micro_batch") *
                             std::max<std::int64_t>(1, count_of(facts, "accumulation")) *
                             gpus_of(facts, asked);
    say(facts, "rl.prompts", std::to_string(pairs ? all : all / of_prompt(facts)));
  }
  const std::int64_t update = count_of(facts, "rl_update");
  if (pairs && update > 0) say(facts, "rl.prompts", std::to_string(update));
  // verl's stream: a step lies between two refits, some fits of some mini-batches of prompts.
  fill_stream(facts, asked, name);
  if (has(facts, "rl_streams") && count_of(facts, "rl.prompts") == 0)
    say(facts, "rl.prompts",
        std::to_string(count_of(facts, "rl_mini") * count_of(facts, "rl_required") *
                       count_of(facts, "rl_fits")));
  const std::int64_t prompts = count_of(facts, "rl.prompts");
  std::int64_t updates = 1;
  if (const std::int64_t mini = count_of(facts, "rl_mini"); mini > 0) updates = prompts / mini;
  if (update > 0 && !pairs) updates = prompts * of_prompt(facts) / update;
  if (updates > 1) say(facts, "rl.updates", std::to_string(updates));
  // TRL's steps are the optimizer's, of which each response has as many as there are iterations.
  const std::int64_t steps = count_of(facts, "train.steps");
  if (const std::int64_t epochs = count_of(facts, "rl.epochs");
      has(facts, "rl_of_micro") && steps > 0 && epochs > 1)
    say(facts, "train.steps", std::to_string(std::max<std::int64_t>(1, steps / epochs)));
  // A micro-batch of pairs has two sequences of each.
  if (pairs) say(facts, "micro_batch", std::to_string(2 * count_of(facts, "micro_batch")));
}

/// Tokens of a sample: what a micro-batch holds where padding is removed, else the limits.
void fill_sample(Facts& facts, const Means& means) {
  const double total = number_of(facts, "rl_total");
  double prompt = number_of(facts, "rl.lengths.prompt.limit");
  double response = number_of(facts, "rl.lengths.response.limit");
  if (total > 0) {
    // A response may have what its prompt leaves of both together: prompts are as long as their
    // mean.
    if (prompt == 0 || means.prompt <= prompt) prompt = std::ceil(means.prompt);
    if (response == 0 || response + prompt > total) response = std::max(1.0, total - prompt);
    say_number(facts, "rl.lengths.prompt.limit", prompt);
    say_number(facts, "rl.lengths.response.limit", response);
  }
  const double longest = total > 0 ? total : prompt + response;
  const double micro = std::max<double>(1, static_cast<double>(count_of(facts, "micro_batch")));
  const bool packs = value_of(facts, "rl.packing") == "true";
  double sample = longest;
  if (packs && has(facts, "rl_sample"))  // of a rank, times those that share a sequence
    sample = number_of(facts, "rl_sample") *
             std::max(1.0, number_of(facts, "strategy.context_parallel.degree"));
  else if (packs && has(facts, "rl_packed"))
    sample = number_of(facts, "rl_packed");
  else if (packs && total > 0)
    sample = micro * total;
  else if (packs)
    sample = std::max(std::ceil(micro * (means.prompt + means.response)), longest);
  if (packs) say(facts, "micro_batch", "1");
  if (!has(facts, "model.sequence") || facts.at("model.sequence").key.empty())
    say_number(facts, "model.sequence", sample);
}

}  // namespace

void fill_post_training(Facts& facts, const Asked& asked, const std::string& name) {
  if (!has(facts, "rl.algorithm")) return;
  const Means means = means_of(asked, name);
  say_number(facts, "rl.lengths.prompt.mean", means.prompt);
  say_number(facts, "rl.lengths.response.mean", means.response);
  say_number(facts, "rl.lengths.response.deviation", means.deviation);
  if (value_of(facts, "rl.algorithm") != "ppo") facts.erase("rl.critic");
  const bool others = has(facts, "rl.critic") && has(facts, "rl_critic_network") &&
                      value_of(facts, "rl_critic_network") != value_of(facts, "model.hf");
  if (others && has(facts, "model.hf"))
    fail_at(facts.at("rl_critic_network").place,
            "a critic of another network than the policy is not here",
            "name the policy's network, in a copy");
  if (value_of(facts, "rl.algorithm") == "dpo")
    std::erase_if(facts, [](const auto& fact) {
      return fact.first.starts_with("rl.generator") || fact.first == "rl.generations";
    });
  fill_batch(facts, asked, name);
  fill_sample(facts, means);
  // A generator's own nodes are no trainer's.
  if (const std::int64_t own = count_of(facts, "rl.generator.nodes"); own > 0) {
    const std::int64_t nodes = count_of(facts, "nodes");
    if (has(facts, "rl_trainer_apart"))  // verl counts its trainer's nodes without them
      say(facts, "rl_trainer_nodes", std::to_string(nodes));
    else if (nodes > own)
      say(facts, "rl_trainer_nodes", std::to_string(nodes - own));
  }
  for (const char* key : {"accumulation", "global_batch", "rl_of_micro", "rl_update", "rl_mini",
                          "rl_total", "rl_sample", "rl_packed", "rl_critic_network", "rl_required",
                          "rl_fits", "rl_streams", "rl_framework", "rl_trainer_apart"})
    facts.erase(key);
}

}  // namespace rehearse::inline foreign
