#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <set>
#include <utility>

#include "config/fields.hpp"
#include "scenario/section_keys.hpp"
#include "scenario/sections.hpp"
#include "strategy/named_options.hpp"

namespace rehearse::inline scenario {
namespace {

/// No statistic of a report asks for more: the mean of so many is known to 0.3 % of their spread.
constexpr std::int64_t kMostSteps = 100'000;
constexpr std::int64_t kMostReplications = 999;
/// Each rank's end of each step is kept: this many take some hundred megabytes.
constexpr std::int64_t kMostRankSteps = 20'000'000;
constexpr const char* kGpus = "(the GPU's)";
constexpr const char* kPyTorchLoader = "PyTorch DataLoader";

Jitter read_jitter(const Value& value) {
  if (value.is_scalar()) {
    if (value.as_choice({"none", "measured"}) == "none") return {};
    return {.distribution = Jitter::Distribution::measured};
  }
  NamedOptions named = read_named_options(value, {"lognormal", "exponential"}, "a distribution");
  Jitter jitter{.distribution = Jitter::Distribution::exponential, .cv = 1};
  if (named.name == "lognormal") {
    jitter.distribution = Jitter::Distribution::lognormal;
    named.options.require("cv");
    jitter.cv = number_within(named.options, "cv", 0, 0, 10);
  } else {
    jitter.cv = number_within(named.options, "cv", 1, 0, 1);
  }
  named.options.finish();
  return jitter;
}

/// `none`, or how often a rank is stopped and for how long.
Interruptions read_interruptions(const Value& value) {
  constexpr const char* kSuchAs = "write none, or a map such as {every: 5000s, time: 150ms}";
  if (value.is_scalar() && value.shown() == "none") {
    value.as_choice({"none"});
    return {};
  }
  if (!value.is_map()) {
    value.mistake(fmt::format("expected none or a map; got {}",
                              value.is_null() ? "nothing" : "\"" + value.shown() + "\""),
                  kSuchAs);
    return {};
  }
  Map map = value.as_map();
  Interruptions stops{.every = form::time_above_0().read(map.require("every")),
                      .time = form::time_above_0().read(map.require("time"))};
  map.finish();
  return stops;
}

/// The framework's own where nobody says others. Those that are said and are the same stand for as
/// much: what is not known of them is the same.
void read_interruptions(Map& map, Framework* framework, RunOptions& run) {
  const std::string key = "run.stops";
  const std::optional<Value> given = map.optional("stops");
  const auto usual = framework == nullptr ? std::nullopt : framework->find(key);
  if (given) run.interruptions = read_interruptions(*given);
  if (!usual) return;
  const Interruptions theirs =
      read_interruptions(Document::parse(*usual, "platforms/frameworks: " + key)->root());
  if (!given) {
    run.interruptions = theirs;
    framework->note(key);
  }
  run.usual_interruptions =
      run.interruptions.every == theirs.every && run.interruptions.time == theirs.time;
}

/// So many, or as many as it takes to know their median to a precision.
Replications read_replications(const Value& value) {
  if (!value.is_map()) {
    const auto number = static_cast<std::uint32_t>(value.as_integer(1, kMostReplications));
    return {.at_least = number, .at_most = number};
  }
  Map map = value.as_map();
  Replications replications;
  replications.precision = form::within(1e-4, 1).read(map.require("precision"));
  const std::int64_t least = map.integer_or("at_least", 5, 1, kMostReplications);
  replications.at_least = static_cast<std::uint32_t>(least);
  replications.at_most = static_cast<std::uint32_t>(
      map.integer_or("at_most", std::max<std::int64_t>(99, least), least, kMostReplications));
  map.finish();
  return replications;
}

std::vector<Straggler> read_stragglers(Map& run, std::size_t ranks) {
  std::vector<Straggler> stragglers;
  const std::optional<Value> list = run.optional("stragglers");
  if (!list) return stragglers;
  if (list->is_map()) {
    list->mistake("expected a list of ranks; got a map", "write [{rank: 0, slowdown: 1.2}]");
    return stragglers;
  }
  std::set<std::size_t> seen;
  for (const Value& value : list->as_list()) {
    Map map = value.as_map();
    const Value rank = map.require("rank");
    const auto index =
        static_cast<std::size_t>(rank.as_integer(0, static_cast<std::int64_t>(ranks) - 1));
    if (!seen.insert(index).second)
      rank.fail(fmt::format("rank {} is listed twice", index), "leave one of them out");
    const std::optional<Value> delay = map.optional("delay");
    if (!delay) map.require("slowdown");
    stragglers.push_back({index, number_within(map, "slowdown", 1, 1, 1000),
                          delay ? delay->as_seconds() : Seconds(0)});
    map.finish();
  }
  return stragglers;
}

constexpr Choices<GraphScope> kGraphScopes = {{"attn", GraphScope::attn},
                                              {"mlp", GraphScope::mlp},
                                              {"moe", GraphScope::moe},
                                              {"moe_router", GraphScope::moe_router},
                                              {"moe_preprocess", GraphScope::moe_preprocess},
                                              {"mamba", GraphScope::mamba},
                                              {"full_iteration", GraphScope::full_iteration}};

/// A list of them, or one.
Form<std::vector<GraphScope>> graph_scopes() {
  const auto one = form::choice(kGraphScopes);
  const auto many = form::list(one);
  return {one.type | many.type,
          [one = one.read, many = many.read](const Value& value) {
            return value.is_list() ? many(value) : std::vector<GraphScope>{one(value)};
          },
          {},
          {},
          false};
}

/// Models whose times are given do not use it, and the costs state it: it has no defaults here.
Fields<AnalyticEfficiency> efficiency_fields() {
  using E = AnalyticEfficiency;
  static const Form<double> kShare = form::within(1e-6, 1);
  return {
      field("matrix", &E::matrix, kShare, "Matrix products, convolutions.").otherwise(kGpus),
      field("depthwise", &E::depthwise, kShare, "Depthwise convolutions.").otherwise(kGpus),
      field("attention", &E::attention, kShare, "Attention.").otherwise(kGpus),
      field("memory", &E::memory, kShare, "Memory-bound kernels.").otherwise(kGpus),
      field("kernel_launch", &E::kernel_launch, "Time to launch one kernel.").otherwise(kGpus),
      field("host_launch", &E::host_launch,
            "Host time of an eager operator (a compiled kernel takes 8/30); 0 with CUDA graphs.")
          .otherwise("(the host's, else 30 us)"),
      silent("cuda_launch_blocking", &E::launch_blocking,
             "The environment's CUDA_LAUNCH_BLOCKING=1: the host waits for each kernel. Exchanges "
             "that overlap still do."),
      silent("cuda_graph_scope", &E::graphs, graph_scopes(),
             "What of each block CUDA graphs hold (--cuda-graph-scope); their memory is not "
             "counted.")};
}

/// Rejects what would not fit into memory. A key that is missing has a default far below the limit.
void check_steps(Map& run, const RunOptions& options, std::size_t ranks) {
  const auto rank_steps =
      static_cast<std::int64_t>(ranks) * (std::int64_t{options.steps} + options.warmup_steps);
  if (rank_steps <= kMostRankSteps) return;
  const std::string message =
      fmt::format("{} ranks times {} steps are more than {} million", ranks,
                  std::int64_t{options.steps} + options.warmup_steps, kMostRankSteps / 1'000'000);
  const std::string key = run.has("steps") ? "steps" : "warmup_steps";
  (run.has(key) ? run.require(key) : run.where()).fail(message, "simulate fewer steps");
}

Fields<Train> train_fields() {
  using T = Train;
  constexpr std::int64_t kMost = 1'000'000'000'000'000;
  return {field("samples_per_epoch", &T::samples_per_epoch, form::integer(1, kMost).in("samples"),
                "Samples of one epoch."),
          field("epochs", &T::epochs, form::within(1e-9, 1e6), "Epochs, also fractions."),
          field("steps", &T::steps, form::integer(1, kMost),
                "Steps of the optimizer, in the place of epochs or tokens."),
          silent("market", &T::market,
                 form::choice<Market>({{"on_demand", Market::on_demand},
                                       {"reserved", Market::reserved},
                                       {"spot", Market::spot}}),
                 "Which price counts.")
              .otherwise("on_demand")};
}

}  // namespace

Train read_train_section(const Value& value) {
  Map map = value.as_map();
  const Train train = read_fields(map, train_fields());
  map.optional("tokens");  // both are read with the model, the cluster and the strategy
  map.optional("global_batch");
  map.optional("like");
  map.optional("to");
  if (train.epochs && !train.samples_per_epoch && !map.has("tokens"))
    map.require("epochs").mistake("epochs of how many samples?",
                                  "add samples_per_epoch, or say tokens instead");
  for (const char* other : {"epochs", "tokens"})
    if (train.steps && map.has(other))
      map.require("steps").mistake(fmt::format("steps and {} say the same thing", other),
                                   "leave one of them out");
  map.finish();
  return train;
}

namespace {

/// Compute beside communication: nothing is said where that was measured.
void read_overlap(Map& map, bool measured, RunOptions& run) {
  if (!map.has("overlap_slowdown") && measured) return;
  const std::optional<Value> value = map.optional("overlap_slowdown");
  const std::string text = value && value->is_scalar() ? value->shown() : "";
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text.front())) == 0)
    run.overlap_slowdown = number_within(map, "overlap_slowdown", 1, 1, 100);
  else if (value->as_choice({"channels", "none"}) == "none")
    run.overlap_slowdown = 1;
  else
    run.channels_slow_compute = true;
}

/// The readers of a run's keys go by this.
struct RunContext {
  std::size_t ranks;
  Framework* framework;
  bool has_measured_overlap;
};

/// `data_loading: {sample: 8ms, num_workers: 8, prefetch_factor: 2}`.
Fields<DataLoading> data_loading_fields(Framework* framework) {
  using D = DataLoading;
  return {required("sample", &D::sample,
                   "That one worker takes for one: reading, decoding, augmenting.", kPyTorchLoader),
          {{{"num_workers", type::integer(0), "0 or 2",
             "Workers of each GPU's process, on the node's cores; 0: the process itself.",
             kPyTorchLoader}},
           [framework](Map& map, D& loading) {
             loading.workers = static_cast<int>(
                 framework->integer_or(map, "run.data_loading.", "num_workers", 0, 10'000));
           }},
          silent("prefetch_factor", &D::prefetch_factor, form::integer(1, 10'000),
                 "Batches that each worker is ahead.", kPyTorchLoader)
              .otherwise("2")};
}

void check_data_loading(Map& map, DataLoading& loading) {
  if (loading.sample <= Seconds(0))
    map.require("sample").fail("a sample that takes no time needs no data_loading",
                               "remove data_loading");
  if (map.has("prefetch_factor") && loading.workers == 0)
    map.require("prefetch_factor")
        .fail("without workers nothing is loaded ahead, as PyTorch says",
              "set num_workers, or remove it");
}

Fields<RunOptions> run_fields(const RunContext& context) {
  using R = RunOptions;
  return {
      field("steps", &R::steps, form::integer(1, kMostSteps),
            "Steps that are measured, 100,000 at most."),
      field("warmup_steps", &R::warmup_steps, form::integer(0, kMostSteps), "Steps before them."),
      silent("play", &R::play_all, form::choice<bool>({{"steady", false}, {"all", true}}),
             "Micro-batches are played until one takes as long as the one before it; the others of "
             "a step then follow. Or all of them are played.")
          .otherwise("steady"),
      silent("until", &R::until,
             form::choice<RunUntil>({{"steady", RunUntil::steady}, {"steps", RunUntil::steps}}),
             "Asynchronous servers: until throughput is steady, or for `steps`.")
          .otherwise("steady"),
      field("seed", &R::seed, form::integer(0, std::numeric_limits<std::int64_t>::max()),
            "Seed of everything that is drawn."),
      field("fidelity", &R::fidelity,
            form::choice<FidelityChoice>({{"hop", FidelityChoice::hop},
                                          {"flow", FidelityChoice::flow},
                                          {"folded", FidelityChoice::folded},
                                          {"auto", FidelityChoice::automatic}}),
            "Every message, one flow per edge, or two nodes for all."),
      {{{"jitter", type::choice({"none", "measured"}) | type::map(),
         "(lognormal, cv 0.002, on several GPUs)", "How steps of one GPU differ.",
         "PyTorch's DDP benchmarks"},
        {"jitter.lognormal", type::map(), "-", "Lognormal factors."},
        {"jitter.lognormal.cv", type::number(), "required", "Standard deviation over mean."},
        {"jitter.exponential", type::map(), "-", "A fixed part and an exponential one."},
        {"jitter.exponential.cv", type::number(), "1", "Share of the exponential part."}},
       [](Map& map, R& run) {
         const std::optional<Value> jitter = map.optional("jitter");
         run.usual_jitter = !jitter;
         if (jitter) run.jitter = read_jitter(*jitter);
       }},
      {{{"stops", type::choice({"none"}) | type::map(),
         "(of torch under fsdp every 5,000 s for 150 ms)",
         "Stops of ranks, each at a time of its own.", "torchtitan's gc_freq"},
        {"stops.every", type::time(), "required", "Of a rank's computing, between two."},
        {"stops.time", type::time(), "required", "Of each."}},
       [framework = context.framework](Map& map, R& run) {
         read_interruptions(map, framework, run);
       }},
      silent("replications", &R::replications,
             Form<Replications>{type::integer(1) | type::map(),
                                read_replications,
                                {},
                                {{".precision", type::within(0.0001, 1), "required",
                                  "So many that the median is known to this."},
                                 {".at_least", type::integer(1), "5", "At least so many."},
                                 {".at_most", type::integer(1), "99", "At most so many."}}},
             "Simulations; the median is reported.")
          .otherwise("1"),
      {{{"stragglers", type::list_of(type::map()), "-", "Ranks that are slow."},
        {"stragglers[].rank", type::integer(0), "required", "The rank."},
        {"stragglers[].slowdown", type::number(), "1", "Times as slow."},
        {"stragglers[].delay", type::time(), "-", "Time that it begins each step late."}},
       [ranks = context.ranks](Map& map, R& run) { run.stragglers = read_stragglers(map, ranks); }},
      {{{"speed_spread", type::within(0, 1), "(0.015 on several GPUs)",
         "Standard deviation of ln(speed) of the GPUs.", "Sinha et al., SC22"}},
       [](Map& map, R& run) {
         run.usual_spread = !map.optional("speed_spread");
         if (!run.usual_spread) run.speed_spread = number_within(map, "speed_spread", 0, 0, 1);
       }},
      {{{"overlap_slowdown", type::choice({"channels", "none"}) | type::number(), "1",
         "Times as long as compute takes beside communication; `channels`: by NCCL's."}},
       [measured = context.has_measured_overlap](Map& map, R& run) {
         read_overlap(map, measured, run);
       }},
      silent("efficiency", &R::efficiency, form::map(efficiency_fields()),
             "Shares of the datasheet's rates that kernels reach."),
      field("data_loading", &R::data_loading,
            form::map(data_loading_fields(context.framework), check_data_loading),
            "What it takes to make batches ready.", kPyTorchLoader)
          .otherwise("(batches are there)"),
      field("set_to_none", &R::set_to_none, "zero_grad() gives the gradients back.", "PyTorch")};
}

}  // namespace

std::vector<Key> train_keys() { return keys_of(train_fields()); }
std::vector<Key> run_keys() { return keys_of(run_fields({0, nullptr, false})); }

double number_within(Map& map, const std::string& key, double fallback, double low, double high) {
  if (const auto value = map.optional(key)) return form::within(low, high).read(*value);
  return map.number_or(key, fallback);
}

RunOptions read_run_section(const Value& value, std::size_t ranks, Framework& framework,
                            const CommProfile* comm) {
  Map map = value.as_map();
  const RunOptions run =
      read_fields(map, run_fields({ranks, &framework, comm != nullptr && !comm->overlap.empty()}));
  map.finish();
  check_steps(map, run, ranks);
  return run;
}

std::string graph_scope_name(GraphScope scope) { return name_of(kGraphScopes, scope); }

}  // namespace rehearse::inline scenario
