#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "config/draft.hpp"
#include "planner/plan.hpp"
#include "strategy/strategy.hpp"
#include "study/axes.hpp"

namespace rehearse::inline planner {
namespace {

/// Each leaves a training's numbers as they are, up to rounding.
const std::vector<std::string> kHarmless = {"sharding", "prefetch",    "offload",
                                            "buckets",  "bucket_view", "checkpointing"};
/// Each changes what is trained: the batch, the types of what is summed or computed, staleness.
const std::vector<std::string> kOthers = {"accumulation", "compression", "local_steps",
                                          "precision",    "servers",     "staleness"};

/// One option of a strategy: a key of the strategy's map, and its value. Without a key it adds
/// none: PyTorch's default.
struct Setting {
  std::string key{};
  Draft value{};
};
struct Option {
  std::string name;
  std::vector<Setting> settings;
};

const Option kSharding = {"sharding",
                          {{}, {"sharding", "shard_grad_op"}, {"sharding", "hybrid_shard"}}};
const Option kReshard = {"sharding", {{}, {"reshard_after_forward", "false"}}};
const Option kPrefetch = {
    "prefetch", {{}, {"forward_prefetch", "true"}, {"backward_prefetch", "backward_post"}}};
const Option kOffload = {"offload", {{}, {"cpu_offload", "true"}}};
const Option kBuckets = {"buckets", {{}, {"bucket_cap_mb", "100"}}};
const Option kBucketView = {"bucket_view", {{}, {"gradient_as_bucket_view", "true"}}};
const Option kAccumulation = {"accumulation",
                              {{},
                               {"gradient_accumulation", "2"},
                               {"gradient_accumulation", "4"},
                               {"gradient_accumulation", "8"}}};
const Option kCompression = {"compression", {{}, {"compression", "bf16"}}};
const Option kServers = {"servers", {{}, {"servers", "2"}, {"servers", "4"}}};
const Option kStaleness = {"staleness", {{}, {"staleness", "3"}, {"staleness", "unbounded"}}};
const Option kLayerwise = {"prefetch", {{}, {"layerwise", "true"}}};
const Option kPeriod = {"local_steps", {{"period", "4"}, {"period", "8"}, {"period", "16"}}};

std::vector<Option> options_of(const std::string& strategy) {
  if (strategy == "fsdp") return {kSharding, kPrefetch, kOffload, kAccumulation};
  if (strategy == "fsdp2") return {kReshard, kOffload, kAccumulation};
  if (strategy == "ps") return {kStaleness, kServers, kLayerwise};
  if (strategy == "local_sgd") return {kPeriod};
  return {kBuckets, kBucketView, kCompression, kAccumulation};  // ddp, and what zero wraps
}

/// What stands in a strategy's map whatever its options: ZeRO's stages 2 and 3 are FSDP's
/// shard_grad_op and full_shard, which "fsdp" tries.
Draft fixed_part(const std::string& strategy) {
  return strategy == "zero" ? Draft::map({{"stage", 1}}) : Draft::map();
}

std::vector<Draft> combinations(const std::string& strategy, const std::set<std::string>& allowed) {
  std::vector<Draft> maps = {fixed_part(strategy)};
  for (const Option& option : options_of(strategy)) {
    if (!allowed.contains(option.name)) continue;
    std::vector<Draft> more;
    for (const Draft& map : maps) {
      for (const Setting& setting : option.settings) {
        more.push_back(map);
        if (!setting.key.empty()) more.back().set(setting.key, setting.value);
      }
    }
    maps = std::move(more);
  }
  return maps;
}

std::set<std::string> read_options(Map& map) {
  std::set<std::string> all(kHarmless.begin(), kHarmless.end());
  const auto value = map.optional("options");
  if (value && value->is_list()) {
    std::vector<std::string> known = kHarmless;
    known.insert(known.end(), kOthers.begin(), kOthers.end());
    all.clear();
    for (const Value& name : value->as_list()) all.insert(name.as_choice(known));
  } else if (value && value->as_choice({"auto", "all"}) == "all") {
    all.insert(kOthers.begin(), kOthers.end());
  }
  return all;
}

/// Megatron-LM's FSDP is of a layout, which `parallelism` searches.
std::vector<std::string> searched() {
  std::vector<std::string> names = strategy_names();
  std::erase(names, "megatron_fsdp");
  return names;
}

/// `all` leaves out local SGD unless its period may be chosen: no other strategy trains the same.
std::vector<std::string> read_strategies(const Value& value, std::set<std::string>& allowed) {
  if (!value.is_list()) {
    value.as_choice({"all"});
    std::vector<std::string> names = searched();
    if (!allowed.contains("local_steps")) std::erase(names, "local_sgd");
    return names;
  }
  std::vector<std::string> names;
  for (const Value& name : value.as_list()) {
    names.push_back(name.as_choice(searched()));
    if (std::ranges::count(names, names.back()) > 1) {
      name.fail(fmt::format("\"{}\" stands here twice", names.back()));
    }
  }
  if (names.empty()) value.fail("no strategies to try", "name some, or write all");
  if (std::ranges::count(names, "local_sgd") > 0) allowed.insert("local_steps");
  return names;
}

}  // namespace

std::vector<Axis> search_axes(const Value& search) {
  Map map = search.as_map();
  std::set<std::string> allowed = read_options(map);
  Draft axes;
  if (const auto strategies = map.optional("strategies")) {
    std::vector<Draft> values;
    for (const std::string& name : read_strategies(*strategies, allowed)) {
      for (const Draft& options : combinations(name, allowed))
        values.push_back(Draft::map({{name, options}}));
    }
    axes.entry("strategy", Draft::list(values));
  }
  map.finish();
  if (allowed.contains("checkpointing"))
    axes.entry("model.activation_checkpointing", Draft::list({"none", "per_unit"}));
  if (allowed.contains("precision")) axes.entry("model.precision", Draft::list({"fp32", "bf16"}));
  if (axes.entries().empty()) search.fail("nothing to try", "name strategies");
  return read_axes(Document::parse(axes.flow(), "search")->root());
}

}  // namespace rehearse::inline planner
