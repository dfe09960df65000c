#include <fmt/format.h>

#include "strategy/named_options.hpp"
#include "strategy/read_kinds.hpp"
#include "strategy/read_local_sgd.hpp"
#include "strategy/strategy_keys.hpp"
#include "strategy/zero_keys.hpp"

namespace rehearse::inline strategy {
namespace {

Strategy read_zero(Map& map, const Reading& reading) {
  if (!map.has("stage") && nearest("stage", map.keys()).empty())
    map.where().mistake("the key \"stage\" is missing",
                        "write zero: {stage: 1}; 2 shards gradients as well, 3 also parameters");
  const std::int64_t stage = of_zero().stage.required_in(map);
  const bool deepspeed = reading.framework.word(kReplicasCode) == "deepspeed";
  if (stage == 1 && !deepspeed) return read_replicas(map, "strategy.zero.", reading);
  if (map.has("sharding")) {
    map.at_key("sharding")
        .fail("a ZeRO stage decides the sharding itself",
              "remove it, or write fsdp instead of zero");
  }
  if (stage == 3) return read_stage3(map, reading.framework);
  return read_deepspeed(map, stage, reading.framework);
}

/// `zero: 3` and the like, as others write them: what to write instead.
void check_scalar(const Value& value) {
  if (!value.is_map()) return;
  Map map = value.as_map();
  for (const std::string& name : strategy_names()) {
    if (!map.has(name)) continue;
    const Value options = map.require(name);
    if (!options.is_scalar()) continue;
    const std::string shown = options.shown();
    const bool counts = shown.find_first_not_of("0123456789") == std::string::npos;
    const std::string sharding = nearest(shown, names_of(kShardings));
    const std::string meant = name == "zero"        ? "stage: " + (counts ? shown : "1")
                              : name == "local_sgd" ? "period: " + (counts ? shown : "8")
                              : name == "fsdp" && !sharding.empty() ? "sharding: " + sharding
                                                                    : "";
    options.fail(fmt::format("expected a map; got \"{}\"", shown),
                 fmt::format("write {}: {{{}}}", name, meant));
  }
}

Strategy read_kind(const std::string& name, Map& map, const Reading& reading) {
  if (name == "ddp") return read_replicas(map, "strategy.ddp.", reading);
  if (name == "fsdp") return read_fsdp(map, reading.framework);
  if (name == "fsdp2") return read_fsdp2(map, reading.framework);
  if (name == "megatron_fsdp") return read_megatron_fsdp(map, reading.framework);
  if (name == "zero") return read_zero(map, reading);
  return read_parameter_server(map, reading.framework);
}

/// The kind of data parallelism of a layout's map; where none is said, ddp.
Strategy read_data_kind(Map& map, const Reading& reading) {
  std::string kind = "ddp";
  for (const std::string& name : strategy_names())
    if (name != "local_sgd" && map.has(name)) kind = name;
  const auto none = Document::parse("{ddp: {}}", "strategy");
  Map usual = none->root().as_map();
  Map options = (map.has(kind) ? map.require(kind) : usual.require(kind)).as_map();
  const Strategy strategy = read_kind(kind, options, reading);
  options.finish();
  return strategy;
}

/// `horovod: {}` is meant as Horovod's replicas.
void check_no_framework(const Value& value) {
  if (!value.is_map()) return;
  const Map map = value.as_map();
  for (const std::string& name : framework_names())
    if (map.has(name))
      map.at_key(name).fail("it is a framework, and no strategy",
                            fmt::format("write framework: {} and strategy: {{ddp: {{}}}}", name));
}

}  // namespace

std::vector<Key> zero_keys() { return of_zero().lines(); }

Strategy read_strategy(const Value& value, Framework& framework) {
  check_scalar(value);
  const Reading reading{framework, in_parts(value), is_local_sgd_alone(value)};
  const auto read_data = [&](Map& map) { return read_data_kind(map, reading); };
  const auto read_mesh = [&](const Map& map) { return read_layout(map, reading, read_data); };
  if (value.is_map() && value.as_map().has("local_sgd"))
    return read_local_sgd(
        value,
        [&](const std::string& name, Map& options) { return read_kind(name, options, reading); },
        read_mesh, reading);
  if (is_layout(value) || (value.is_map() && reading.has_mesh())) return read_mesh(value.as_map());
  check_no_framework(value);
  NamedOptions named = read_named_options(value, strategy_names(), "a strategy");
  const Strategy strategy = read_kind(named.name, named.options, reading);
  named.options.finish();
  return strategy;
}

}  // namespace rehearse::inline strategy
