#include "strategy/read_local_sgd.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "strategy/choices.hpp"
#include "strategy/outer/outer_step.hpp"
#include "strategy/read_layout.hpp"

namespace rehearse::inline strategy {
namespace {

constexpr std::int64_t kMostSteps = 10'000;
constexpr std::int64_t kMostReplicas = 1'000'000;

void read_fragments(Map& map, LocalSgd& local) {
  local.fragments = static_cast<int>(map.integer_or("fragments", 1, 1, kMostSteps));
  if (local.fragments > local.period)
    map.at_key("fragments")
        .fail(fmt::format("each fragment has a step of the period to itself, which has {}",
                          local.period),
              fmt::format("at most {}", local.period));
  local.overlap_steps = static_cast<int>(map.integer_or("overlap_steps", 0, 0, kMostSteps));
  if (local.overlap_steps >= local.period)
    map.at_key("overlap_steps")
        .fail(fmt::format("a fragment is sent again after {} steps", local.period),
              fmt::format("at most {}", local.period - 1));
}

LocalSgd read_options(Map& map) {
  LocalSgd local;
  if (!map.has("period") && nearest("period", map.keys()).empty())
    map.where().mistake("the key \"period\" is missing",
                        "write period: 8 for eight own steps, say, between two outer ones");
  local.period = static_cast<int>(map.require("period").as_integer(1, kMostSteps));
  local.algorithm =
      value_of(kAlgorithms, map.choice_or("algorithm", "automatic", names_of(kAlgorithms)));
  if (const auto replicas = map.optional("replicas"))
    local.replicas = static_cast<int>(replicas->as_integer(1, kMostReplicas));
  local.outer = read_outer_optimizer(map);
  local.compression = read_outer_compression(map, local.outer);
  if (local.outer) {
    read_fragments(map, local);
  } else {  // averaged parameters are what they are
    for (const char* key : {"fragments", "overlap_steps"}) refuse_without_outer_optimizer(map, key);
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
  const Fsdp* fsdp = fsdp_in(inner);
  if (fsdp != nullptr && fsdp->cpu_offload) {
    Map options = map.require(name).as_map();
    options.at_key("cpu_offload")
        .fail("outer steps of parameters in host memory are not available yet", "remove it");
  }
}

}  // namespace

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
