#include "rollout/rl_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "config/fields.hpp"

namespace rehearse::inline rollout {
namespace {

constexpr std::int64_t kMost = 10'000'000;
/// Sequences of a step that are played in seconds.
constexpr std::int64_t kMostOfAStep = 200'000;

constexpr Choices<RlAlgorithm> kAlgorithms = {
    {"grpo", RlAlgorithm::grpo},
    {"dapo", RlAlgorithm::dapo},
    {"rloo", RlAlgorithm::rloo},
    {"reinforce_plus_plus", RlAlgorithm::reinforce_plus_plus},
    {"ppo", RlAlgorithm::ppo},
    {"dpo", RlAlgorithm::dpo},
    {"kto", RlAlgorithm::kto},
    {"reward", RlAlgorithm::reward},
    {"distillation", RlAlgorithm::distillation},
    {"scoring", RlAlgorithm::scoring}};

constexpr Choices<TakeOrder> kTakeOrders = {{"ended", TakeOrder::ended},
                                            {"begun", TakeOrder::begun}};

constexpr Choices<Balance> kBalances = {{"tokens", Balance::tokens},
                                        {"sequences", Balance::sequences}};

Fields<Lengths> length_fields() {
  using L = Lengths;
  return {required("mean", &L::mean, form::positive(), "Mean in tokens, of what the limit cuts."),
          field("deviation", &L::deviation, form::not_negative(),
                "Standard deviation in tokens, before the cut."),
          silent("limit", &L::limit, form::positive(), "Most tokens.")};
}

void check_lengths(Map& map, Lengths& lengths) {
  try {
    log_mean(lengths);
  } catch (const std::invalid_argument& wrong) {
    map.at_key("mean").fail(wrong.what(), "give a mean below it");
  }
}

Fields<RlLengths> lengths_fields() {
  using R = RlLengths;
  const auto of = form::map<Lengths>(length_fields(), check_lengths);
  return {required("prompt", &R::prompt, of, "Of prompts: log-normal, cut at the limit."),
          required("response", &R::response, of, "Of responses, the same.")};
}

Form<ServedFormat> served_format() {
  const Form<std::string> one = form::one_of(served_formats());
  return {one.type,
          [read = one.read](const Value& value) { return parse_served_format(read(value)); },
          [](const ServedFormat& format) { return to_string(format); },
          {},
          false};
}

Fields<GeneratorOptions> generator_fields() {
  using G = GeneratorOptions;
  return {
      field("engine", &G::engine, form::one_of(engine_names()), "Whose kernels and scheduler.",
            "platforms/engines"),
      field("tensor_parallel", &G::tensor_parallel, form::integer(1, 1024),
            "GPUs that share each layer of a copy."),
      field("attention_data_parallel", &G::attention_data_parallel, form::integer(1, 1024),
            "Groups of these that share experts alone.", "vLLM; SGLang"),
      field(
          "expert_parallel", &G::expert_parallel, form::integer(1, 1024),
          "Equal parts of a copy's GPUs between which whole experts are dealt; within a part each "
          "expert is divided.",
          "vLLM enable_expert_parallel: all; TensorRT-LLM moe_expert_parallel_size"),
      field("format", &G::format, served_format(), "Of the weights that it generates with."),
      field("eager", &G::eager, "Steps without CUDA graphs.", "vLLM enforce_eager"),
      silent("memory", &G::memory, form::within(0.05, 1), "Share of a GPU for weights and cache.",
             "vLLM gpu_memory_utilization; SGLang mem_fraction_static"),
      field("sequences", &G::sequences, form::integer(1, kMost),
            "Sequences at a time, of a tensor group.", "vLLM max_num_seqs"),
      field("host", &G::host,
            "Host time of each step, beside the engine's own: what runs in its process.",
            "`rehearse import log --calibrate`"),
      implied("nodes", &G::nodes, form::integer(0, 100'000),
              "Nodes of its own, beside the cluster's and like them; 0: the trainer's GPUs."),
      field("sleeps", &G::sleeps, "It gives its memory back while the trainer computes.",
            "vLLM enable_sleep_mode"),
      field("trainer_sleeps", &G::trainer_sleeps,
            "Parameters and optimizer are in host memory but where they are computed with.",
            "verl param_offload, optimizer_offload"),
      silent("sleep_rate", &G::sleep_rate, "At which they go there and come back, of a GPU.",
             "platforms/refits.yaml")};
}

Fields<StalenessOptions> staleness_fields() {
  using S = StalenessOptions;
  return {field("limit", &S::limit, form::within(0, 100),
                "Steps' worth of responses that may be begun ahead of what is trained on.",
                "NeMo-RL max_trajectory_age_steps; verl staleness_threshold; AReaL "
                "max_head_offpolicyness"),
          field("in_flight", &S::in_flight,
                "Sequences go on over a refit, and new ones start where others end.",
                "NeMo-RL in_flight_weight_updates; verl partial_rollout"),
          field("take", &S::take, form::choice<TakeOrder>(kTakeOrders),
                "What a step in flight trains on: what ended first, or what began first.",
                "ended: verl, AReaL; begun: NeMo-RL"),
          field("stream", &S::stream,
                "In flight, each of a step's updates begins where its own responses are there.",
                "verl require_batches")};
}

Fields<RefitOptions> refit_fields() {
  using R = RefitOptions;
  return {silent("time", &R::time, "Of one exchange of weights."),
          silent("rate", &R::rate, "Bytes of the model in 16 bits, over that time.",
                 "platforms/refits.yaml")};
}

Fields<MeasuredPasses> measured_fields() {
  using M = MeasuredPasses;
  return {field("training", &M::training, form::positive(),
                "How long training took in your run, over what is predicted.",
                "`rehearse import log --calibrate`"),
          field("forward", &M::forward, form::positive(), "The same of passes forward alone.",
                "`rehearse import log --calibrate`")};
}

void check_refit(Map& map, RefitOptions& refit) {
  if (refit.time && refit.rate)
    map.at_key("rate").fail("time and rate say the same thing", "leave one of them out");
}

Fields<RlOptions> rl_fields() {
  using R = RlOptions;
  return {
      field("algorithm", &R::algorithm, form::choice<RlAlgorithm>(kAlgorithms),
            "Of post-training: what is computed in a step."),
      required("prompts", &R::prompts, form::integer(1, kMost),
               "Of a step; of dpo and reward pairs, of kto, distillation and "
               "scoring sequences."),
      field("generations", &R::generations, form::integer(1, kMost), "Responses to each prompt.",
            "TRL num_generations; verl rollout.n; NeMo-RL num_generations_per_prompt"),
      required("lengths", &R::lengths, form::map<RlLengths>(lengths_fields()),
               "Tokens of prompts and responses."),
      silent("reference", &R::reference,
             "A frozen policy's log-probabilities are computed (a KL term, DPO).",
             "TRL beta; verl use_kl_loss"),
      field("old_log_probs", &R::old_log_probs,
            "The policy's own are computed before its first update.", "verl; NeMo-RL"),
      silent("teacher", &R::teacher,
             "Of distillation: the network whose forward pass runs on the trainer's layout, named "
             "as model's own is (use or hf)."),
      silent("critic", &R::critic, "Values are computed, and their network trained, as the policy.",
             "PPO; verl algorithm.adv_estimator: gae")
          .otherwise("(true of ppo)"),
      field("reward", &R::reward, "Time of all rewards that nothing computes beside."),
      field("updates", &R::updates, form::integer(1, kMost),
            "Of the optimizer, over the responses.", "verl ppo_mini_batch_size"),
      field("epochs", &R::epochs, form::integer(1, 1000), "Times that responses are trained on.",
            "verl ppo_epochs; TRL num_iterations"),
      field("packing", &R::packing, "Responses fill samples; false: each is padded to the limits.",
            "verl use_remove_padding; NeMo-RL sequence_packing"),
      field("balance", &R::balance, form::choice<Balance>(kBalances),
            "What an update deals equally to replicas: the longest sequences make one the last.",
            "tokens: NeMo-RL's packs; sequences: verl's mini-batches, TRL"),
      silent("generator", &R::generator, form::map<GeneratorOptions>(generator_fields()),
             "What generates."),
      silent("staleness", &R::staleness, form::map<StalenessOptions>(staleness_fields()),
             "How far generation may lag."),
      silent("refit", &R::refit, form::map<RefitOptions>(refit_fields(), check_refit),
             "How new weights come to the generator; else at its kind's usual rate."),
      silent("measured", &R::measured, form::map<MeasuredPasses>(measured_fields()),
             "What a log of the same training measured of the trainer's passes.")};
}

void check_staleness(Map& map, const RlOptions& rl) {
  const StalenessOptions& staleness = rl.staleness;
  if (staleness.in_flight && rl.generator.colocated())
    map.at_key("staleness")
        .fail("sequences on the trainer's GPUs cannot go on while that computes",
              "give the generator nodes of its own (rl.generator.nodes), or leave in_flight out");
  if (!staleness.in_flight && staleness.limit != std::floor(staleness.limit))
    map.at_key("staleness")
        .fail("batches that are generated whole lag by whole steps",
              "staleness: {limit: 1}, or with in_flight: true");
  if (!staleness.in_flight && (staleness.stream || staleness.take != TakeOrder::ended))
    map.at_key("staleness")
        .fail("stream and take are of sequences in flight",
              "staleness: {limit: 1, in_flight: true}");
}

void check_teacher(Map& map, const RlOptions& rl) {
  const bool distils = rl.algorithm == RlAlgorithm::distillation;
  if (distils && rl.teacher.empty())
    map.at_key("algorithm")
        .fail("distillation is from a teacher, and none is named", "teacher: llama_3_70b");
  if (!distils && !rl.teacher.empty())
    map.at_key("teacher").fail(fmt::format("{} has no teacher", to_string(rl.algorithm)),
                               "algorithm: distillation, or leave it out");
}

void check_rl(Map& map, RlOptions& rl) {
  check_teacher(map, rl);
  for (const char* key : {"epochs", "updates"})
    if (rl.algorithm == RlAlgorithm::scoring && map.has(key))
      map.at_key(key).fail("scoring trains nothing: its sequences pass once", "leave it out");
  if (rl.sequences() > kMostOfAStep)
    map.at_key("prompts").fail(
        fmt::format("a step of {} sequences is more than {}", rl.sequences(), kMostOfAStep),
        "prompts: 128, and generations: 16");
  if (!generates(rl.algorithm)) {
    for (const char* key :
         {"generations", "generator", "staleness", "refit", "reward", "old_log_probs", "critic"})
      if (map.has(key))
        map.at_key(key).fail(
            fmt::format("{} trains on given responses and generates none", to_string(rl.algorithm)),
            "leave it out, or take algorithm: grpo");
    return;
  }
  if (rl.has_critic() && rl.algorithm != RlAlgorithm::ppo)
    map.at_key("critic").fail(
        fmt::format("{} has no values that a critic would tell", to_string(rl.algorithm)),
        "algorithm: ppo, or leave it out");
  if (rl.balance == Balance::sequences && !rl.packing)
    map.at_key("balance").fail("padded sequences are as long as each other",
                               "leave it out, or packing: true");
  if (rl.staleness.limit > 0 && rl.generator.colocated())
    map.at_key("staleness")
        .fail("a generator on the trainer's GPUs generates while that waits, and never lags",
              "give it nodes of its own (rl.generator.nodes), or leave staleness out");
  check_staleness(map, rl);
  if (rl.updates > rl.sequences())
    map.at_key("updates").fail(
        fmt::format("{} updates of {} sequences", rl.updates, rl.sequences()),
        fmt::format("give at most {}", rl.sequences()));
  const Lengths& response = rl.lengths.response;
  if (!rl.packing && response.limit == 0)
    map.at_key("packing").fail("responses are padded to a limit, and there is none",
                               "lengths: {response: {mean: 1000, limit: 4096}}");
}

}  // namespace

Lengths total(const RlLengths& lengths) {
  const Lengths &prompt = lengths.prompt, &response = lengths.response;
  return {.mean = prompt.mean + response.mean,
          .deviation = std::hypot(prompt.deviation, response.deviation),
          .limit = prompt.limit > 0 && response.limit > 0 ? prompt.limit + response.limit : 0};
}

double longest(const RlLengths& lengths) {
  constexpr double kBeyondMean = 10;
  const auto of = [](const Lengths& one) {
    return one.limit > 0 ? one.limit : kBeyondMean * one.mean;
  };
  return of(lengths.prompt) + of(lengths.response);
}

bool generates(RlAlgorithm algorithm) { return algorithm < RlAlgorithm::dpo; }
std::string to_string(RlAlgorithm algorithm) { return name_of(kAlgorithms, algorithm); }

std::int64_t RlOptions::sequences() const {
  if (generates(algorithm)) return prompts * generations;
  const bool pairs = algorithm == RlAlgorithm::dpo || algorithm == RlAlgorithm::reward;
  return pairs ? 2 * prompts : prompts;
}

bool RlOptions::has_critic() const { return critic.value_or(algorithm == RlAlgorithm::ppo); }

bool RlOptions::has_reference() const {
  return reference.value_or(algorithm == RlAlgorithm::dpo || algorithm == RlAlgorithm::kto);
}

RlOptions read_rl_section(const Value& section) {
  return read_fields<RlOptions>(section, rl_fields(), check_rl);
}
std::vector<Key> rl_keys() { return keys_of(rl_fields()); }

}  // namespace rehearse::inline rollout
