#pragma once

#include <string>
#include <vector>

#include "config/document.hpp"
#include "model/adaptation.hpp"

namespace rehearse::inline scenario {

/// Units whose names match one of the patterns; each pattern must match some.
std::vector<bool> matching_units(const std::vector<Value>& patterns, const Model& model);

/// Reads `frozen`, `lora` and `quantization` of a computed model and applies them; they are left in
/// `applied`.
Model read_adaptation(Map& map, Model model, Precision precision,
                      std::vector<std::string>& assumptions, std::optional<Adaptation>& applied);

}  // namespace rehearse::inline scenario
