#include "scenario/token_keys.hpp"

#include <fmt/format.h>

#include <cmath>
#include <variant>

#include "config/count.hpp"

namespace rehearse::inline scenario {
namespace {

constexpr std::int64_t kMostOfAStep = 1'000'000;

/// Tokens of a sample; `where` asked in tokens.
std::int64_t tokens_of_sample(const Value& where, const Scenario& scenario) {
  if (scenario.model.tokens_per_sample == 0)
    where.fail(scenario.model.name + " takes no tokens", "say it in samples");
  return scenario.model.tokens_per_sample;
}

std::int64_t sequences_of(const Value& global_batch, const Scenario& scenario) {
  if (global_batch.is_scalar())
    global_batch.fail(fmt::format("{} of what?", global_batch.shown()),
                      fmt::format("write {{sequences: {}}}", global_batch.shown()));
  Map map = global_batch.as_map();
  const std::optional<Value> tokens = map.optional("tokens");
  const std::optional<Value> sequences = map.optional("sequences");
  map.finish();
  if (tokens.has_value() == sequences.has_value())
    global_batch.fail(tokens ? "tokens and sequences say the same thing"
                             : "one of tokens and sequences is missing",
                      "give one of them, such as `global_batch: {sequences: 1024}`");
  if (sequences) return read_count_of(*sequences);
  const std::int64_t each = tokens_of_sample(*tokens, scenario);
  const std::int64_t all = read_count_of(*tokens);
  if (all % each != 0)
    tokens->fail(fmt::format("{} tokens are no whole number of sequences of {}", all, each),
                 fmt::format("such as {}", std::max<std::int64_t>(1, all / each) * each));
  return all / each;
}

/// Who has micro-batches of its own.
struct Replicas {
  std::int64_t count = 1;
  const char* noun = "GPUs";
};

Replicas replicas_of(const Scenario& scenario) {
  const bool is_whole = mesh_of(scenario.strategy).ranks() == 1;
  return {static_cast<std::int64_t>(replicas_on(scenario.strategy, scenario.cluster)),
          is_whole ? "GPUs" : "replicas"};
}

bool says_accumulation(const Value& strategy) {
  if (!strategy.is_map()) return false;
  const Map map = strategy.as_map();
  if (map.has("micro_batches") || map.has("micro_batch_size")) return true;
  for (const std::string& key : map.keys()) {
    if (key == "pipeline") continue;  // says the rounds that share a step's micro-batches
    const Value options = Map(map).require(key);
    if (options.is_map() && options.as_map().has("gradient_accumulation")) return true;
  }
  return false;
}

}  // namespace

std::int64_t read_count_of(const Value& value) {
  if (const std::optional<double> count = count_number(value.as_string()))
    return static_cast<std::int64_t>(*count);
  value.fail(
      fmt::format("expected a count such as 15T, 300B, 4Mi or 1024; got \"{}\"", value.shown()));
}

void apply_tokens(const Value& train, Scenario& scenario) {
  Map map = train.as_map();
  const std::optional<Value> tokens = map.optional("tokens");
  if (!tokens) return;
  if (map.has("samples_per_epoch"))
    map.at_key("tokens").fail("tokens and samples_per_epoch say the same thing",
                              "leave one of them out");
  const auto each = static_cast<double>(tokens_of_sample(*tokens, scenario));
  const auto all = static_cast<double>(read_count_of(*tokens));
  scenario.train.samples_per_epoch = static_cast<std::int64_t>(std::ceil(all / each));
  if (!scenario.train.epochs) scenario.train.epochs = 1;
}

std::optional<std::int64_t> global_batch_of(const Value& train, const Scenario& scenario) {
  const std::optional<Value> wanted = train.as_map().optional("global_batch");
  if (!wanted) return std::nullopt;
  return sequences_of(*wanted, scenario);
}

void apply_global_batch(const Value& train, const Value& strategy, Scenario& scenario) {
  Map map = train.as_map();
  const std::optional<Value> wanted = map.optional("global_batch");
  if (!wanted) return;
  int* const micro = micro_batches_of(scenario.strategy);
  if (micro == nullptr)
    wanted->fail("the strategy accumulates no micro-batches",
                 "ddp, fsdp and zero do; leave global_batch out for others");
  if (says_accumulation(strategy))
    wanted->fail(scenario.strategy.layout
                     ? "global_batch and micro-batches say the same thing"
                     : "global_batch and gradient_accumulation say the same thing",
                 "leave one of them out");
  const std::int64_t sequences = sequences_of(*wanted, scenario);
  const Replicas replicas = replicas_of(scenario);
  const std::int64_t one = replicas.count * scenario.batch_per_gpu;
  if (one == 0) return;  // what is wrong with the cluster or the batch is said where it stands
  if (sequences % one != 0 || sequences / one > kMostOfAStep)
    wanted->fail(fmt::format("{} samples are no whole number of micro-batches of {} on {} {}",
                             sequences, scenario.batch_per_gpu, replicas.count, replicas.noun),
                 fmt::format("a multiple of {}, or another batch_per_gpu", one));
  *micro = static_cast<int>(sequences / one);
  scenario.assumptions.push_back(
      fmt::format("train.global_batch = {} samples: {} micro-batches of {} on each of {} {}",
                  sequences, *micro, scenario.batch_per_gpu, replicas.count, replicas.noun));
}

}  // namespace rehearse::inline scenario
