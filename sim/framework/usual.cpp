#include "framework/usual.hpp"

#include <algorithm>
#include <array>

#include "framework/framework.hpp"

namespace rehearse::inline framework {
namespace {

constexpr std::array<const char*, 5> kDegrees = {"tensor_parallel", "pipeline_parallel",
                                                 "context_parallel", "expert_parallel",
                                                 "embedding_parallel"};

bool is_above_one(const Value& degree) {
  if (degree.is_map()) {
    const std::optional<Value> inner = degree.as_map().optional("degree");
    return inner && is_above_one(*inner);
  }
  const std::string text = degree.shown();
  return degree.is_scalar() && text != "1" &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

/// Experts whose ranks share their tokens, as transformers alone has them.
bool shares_tokens(Map& strategy) {
  const std::optional<Value> experts = strategy.optional("experts");
  if (!experts || !experts->is_map()) return false;
  const std::optional<Value> dispatch = experts->as_map().optional("dispatch");
  return dispatch && dispatch->shown() == "replicated";
}

/// Stage 2 or 3, which DeepSpeed alone calls so.
bool is_deepspeed_stage(Map& strategy) {
  const std::optional<Value> zero = strategy.optional("zero");
  if (!zero || !zero->is_map()) return false;
  const std::optional<Value> stage = zero->as_map().optional("stage");
  return stage && (stage->shown() == "2" || stage->shown() == "3");
}

}  // namespace

bool in_parts(const Value& strategy) {
  if (!strategy.is_map()) return false;
  Map map = strategy.as_map();
  return std::ranges::any_of(kDegrees, [&](const char* key) {
    const std::optional<Value> degree = map.optional(key);
    return degree && is_above_one(*degree);
  });
}

bool is_pipeline(const Value& strategy) {
  if (!strategy.is_map()) return false;
  const std::optional<Value> degree = strategy.as_map().optional("pipeline_parallel");
  return degree && is_above_one(*degree);
}

std::string usual_framework(const Value& strategy) {
  if (!strategy.is_map()) return "torch";
  Map map = strategy.as_map();
  if (is_deepspeed_stage(map)) return "deepspeed";
  if (map.has("megatron_fsdp")) return "megatron";
  const std::optional<Value> tables = map.optional("embedding_parallel");
  const bool torchs = map.has("fsdp") || map.has("fsdp2") || map.has("ps") ||
                      (tables && is_above_one(*tables)) || shares_tokens(map);
  return in_parts(strategy) && !torchs ? "megatron" : "torch";
}

std::string why_usual(const std::string& name) {
  if (name == "megatron")
    return "as its degrees are above 1; `framework: torch` takes PyTorch's own";
  if (name == "deepspeed")
    return "whose words these stages are; `framework: torch` has fsdp in their place";
  return "as nobody says another; `framework: megatron` takes Megatron-LM's";
}

}  // namespace rehearse::inline framework
