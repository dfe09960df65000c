#include "strategy/read_local_sgd.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "strategy/choices.hpp"
#include "strategy/layout/read_layout.hpp"
#include "strategy/outer/outer_step.hpp"
#include "strategy/sharded_parameters.hpp"
#include "strategy/strategy_keys.hpp"

namespace rehearse::inline strategy {
namespace {

constexpr std::int64_t kMostSteps = 10'000;
constexpr std::int64_t kMostReplicas = 1'000'000;

Fields<LocalSgd> local_sgd_fields() {
  using L = LocalSgd;
  const auto has_outer = [](const L& local) { return local.outer.has_value(); };
  return {required("period", &L::period, form::integer(1, kMostSteps).in("steps"),
                   "Own steps between two outer ones."),
          field("algorithm", &L::algorithm, form::choice(kAlgorithms),
                "Algorithm of the all_reduce.", "NCCL"),
          silent("replicas", &L::replicas, form::integer(1, kMostReplicas),
                 "Equal runs of ranks that take steps of their own.")
              .otherwise("(one per GPU; with ddp, zero or fsdp beside it per site or node)"),
          field("outer_optimizer", &L::outer,
                outer_optimizer_form("SGD on the replicas' mean pseudo-gradient."),
                "What a period's mean is for.")
              .otherwise("(parameters are averaged)"),
          outer_compression_field<L>(),
          field("fragments", &L::fragments, form::integer(1, kMostSteps),
                "Equal parts of the parameters, sent in turn.", "Douillard et al. 2025")
              .where(has_outer),
          field("overlap_steps", &L::overlap_steps, form::integer(0, kMostSteps).in("steps"),
                "Steps beside which a fragment travels.", "Douillard et al. 2025")
              .where(has_outer)};
}

void check_fragments(Map& map, const LocalSgd& local) {
  if (local.fragments > local.period)
    map.at_key("fragments")
        .fail(fmt::format("each fragment has a step of the period to itself, which has {}",
                          local.period),
              fmt::format("at most {}", local.period));
  if (local.overlap_steps >= local.period)
    map.at_key("overlap_steps")
        .fail(fmt::format("a fragment is sent again after {} steps", local.period),
              fmt::format("at most {}", local.period - 1));
}

LocalSgd read_options(Map& map) {
  if (!map.has("period") && nearest("period", map.keys()).empty())
    map.where().mistake("the key \"period\" is missing",
                        "write period: 8 for eight own steps, say, between two outer ones");
  const LocalSgd local = read_fields(map, local_sgd_fields());
  if (local.outer) {
    check_fragments(map, local);
  } else {  // averaged parameters are what they are
    for (const char* key : {"compression", "fragments", "overlap_steps"})
      refuse_without_outer_optimizer(map, key);
  }
  map.finish();
  return local;
}

void refuse_server(const Map& map) {
  if (map.has("ps"))
    map.at_key("ps").fail("beside local_sgd the ranks of a replica train in step",
                          "ddp, zero, fsdp or fsdp2; or local_steps of ps alone");
}

/// What a replica cannot be.
void check_inner(Map& map, const std::string& name, const Strategy& inner) {
  const auto sharded = sharded_in(inner);
  if (sharded && sharded->cpu_offload) {
    Map options = map.require(name).as_map();
    options.at_key("cpu_offload")
        .fail("outer steps of parameters in host memory are not available yet", "remove it");
  }
}

}  // namespace

std::vector<Key> local_sgd_keys() { return keys_of(local_sgd_fields()); }

bool is_local_sgd_alone(const Value& strategy) {
  if (!strategy.is_map()) return false;
  const Map map = strategy.as_map();
  const auto has = [&](const std::string& name) { return map.has(name); };
  return has("local_sgd") && std::ranges::count_if(strategy_names(), has) == 1;
}

Strategy read_local_sgd(
    const Value& strategy,
    const std::function<Strategy(const std::string& name, Map& options)>& read_inner,
    const std::function<Strategy(const Map& map)>& read_mesh, const Reading& reading) {
  Map map = strategy.as_map();
  Map own = map.require("local_sgd").as_map();
  Strategy local = read_options(own);
  const auto has = [&](const std::string& key) { return map.has(key); };
  const bool has_kind = std::ranges::any_of(
      strategy_names(), [&](const auto& name) { return name != "local_sgd" && map.has(name); });
  if (std::ranges::any_of(layout_keys(), has) || (reading.has_mesh() && has_kind)) {
    refuse_server(map);
    const Framework before = reading.framework;
    Strategy inner = read_mesh(map);
    for (const std::string& name : strategy_names())
      if (name != "local_sgd" && map.has(name)) check_inner(map, name, inner);
    if (has_kind || reading.in_parts) {
      inner.local_sgd = local.local_sgd;
      return inner;
    }
    // Degrees of 1 alone: a replica is one rank, which takes no default of ddp's.
    reading.framework = before;
    return local;
  }
  std::string first;
  for (const std::string& name : strategy_names()) {
    if (name == "local_sgd" || !map.has(name)) continue;
    if (!first.empty())
      map.at_key(name).fail(
          fmt::format("a replica is kept in step in one way, not by {} as well", first),
          "remove one of the two");
    first = name;
    refuse_server(map);
    Map options = map.require(name).as_map();
    const Strategy inner = read_inner(name, options);
    options.finish();
    check_inner(map, name, inner);
    local.sync = inner.sync;
  }
  map.finish();
  return local;
}

}  // namespace rehearse::inline strategy
