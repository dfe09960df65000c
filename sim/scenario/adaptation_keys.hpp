#pragma once

#include <string>
#include <vector>

#include "config/document.hpp"
#include "model/adaptation.hpp"

namespace rehearse::inline scenario {

/// Units whose names match one of the patterns; each pattern must match some.
std::vector<bool> matching_units(const std::vector<Value>& patterns, const Model& model);

/// True where adapters stand beside whole products of Megatron-LM's layers: of queries, keys and
/// values beside all or none, likewise of what gates and what is gated. Megatron-Bridge's LoRA
/// names linear_qkv and linear_fc1, whose adapter is one; its CanonicalLoRA has one for each part.
bool adapts_whole_products(const Value& lora);

/// Reads `frozen`, `lora` and `quantization` of a computed model and applies them; they are left in
/// `applied`. Targets that are parts of one product become that product where the model has it
/// `joined`.
Model read_adaptation(Map& map, Model model, Precision precision,
                      std::vector<std::string>& assumptions, std::optional<Adaptation>& applied,
                      bool joined);

}  // namespace rehearse::inline scenario
