#pragma once

#include <cstdint>
#include <string>

#include "strategy/choices.hpp"
#include "strategy/layout/read_layout.hpp"

namespace rehearse::inline strategy {

/// A framework says by this word whose code keeps its replicas equal: torch, horovod, megatron or
/// deepspeed.
inline const std::string kReplicasCode = "replicas.code";

inline constexpr std::int64_t kMostMicroBatches = 10'000;
inline constexpr std::int64_t kMostStages = 10'000;
inline constexpr std::int64_t kMostRanks = 1'000'000;
inline constexpr std::int64_t kMostParameters = 100'000'000'000'000;

/// The choice at `key`; `fallback` where it is missing.
template <class Enum>
Enum read_choice(Map& map, const std::string& key, Enum fallback, Choices<Enum> choices) {
  return value_of(choices, map.choice_or(key, name_of(choices, fallback), names_of(choices)));
}

inline int count_or(Map& map, const std::string& key, int fallback, std::int64_t low,
                    std::int64_t high) {
  return static_cast<int>(map.integer_or(key, fallback, low, high));
}

/// Each reads the options of one kind of data parallelism, as the framework has it. `section` is
/// `strategy.ddp.` or `strategy.zero.`.
Strategy read_replicas(Map& map, const std::string& section, const Reading& reading);
/// DeepSpeed's stages 1 and 2.
DeepspeedBuckets read_deepspeed(Map& map, std::int64_t stage, Framework& framework);
TorchFsdp1 read_fsdp(Map& map, Framework& framework);
TorchFsdp2 read_fsdp2(Map& map, Framework& framework);
MegatronFsdp read_megatron_fsdp(Map& map, Framework& framework);
/// ZeRO-3 by DeepSpeed's names.
DeepspeedZero3 read_stage3(Map& map, Framework& framework);
ParameterServer read_parameter_server(Map& map, Framework& framework);
/// InputError at options of a layout that its server refuses. Workers that are single GPUs push
/// each batch; those of several ranks (`in_parts`) are replicas that exchange their parts.
void check_server(Map& map, bool in_parts);
/// InputError where ranks of a context or expert group have gradients of the same parameters.
void check_worker(const Map& map, const Layout& worker);

}  // namespace rehearse::inline strategy
