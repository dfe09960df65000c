#include <fmt/format.h>

#include "model/packing.hpp"
#include "scenario/named_network.hpp"
#include "scenario/sections.hpp"

namespace rehearse::inline scenario {

Model read_packing(const Value& value, Model model) {
  constexpr double kLongest = 1e7;
  if (!is_causal_language_model(model))
    value.fail(
        fmt::format("{} is no causal language model, whose documents are packed", model.name),
        "sequence: 512");
  Map map = value.as_map();
  const auto tokens = static_cast<double>(map.require("packed").as_integer(1, 10'000'000));
  Map lengths = map.require("documents").as_map();
  Documents documents;
  lengths.require("mean");
  documents.mean = number_within(lengths, "mean", 1, 1, kLongest);
  documents.deviation = number_within(lengths, "deviation", 0, 0, kLongest);
  lengths.finish();
  map.finish();
  Model made = packed(std::move(model), document_of_a_token(documents, tokens));
  if (!packed_document(made))
    value.fail(fmt::format("{} has no fused attention here, and without it every pair is computed",
                           made.name),
               "attention: flash2");
  return made;
}

}  // namespace rehearse::inline scenario
