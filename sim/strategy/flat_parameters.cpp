#include "strategy/flat_parameters.hpp"

#include <algorithm>

namespace rehearse {

namespace {

std::int64_t padded(std::int64_t elements, std::int64_t shards) {
  return (elements + shards - 1) / shards * shards;
}

// Whether the run so far is complete, so that a further unit with parameters starts the next one.
bool complete(const Fsdp& options, std::int64_t elements) {
  switch (options.wrap) {
    case Fsdp::Wrap::unit:
      return elements > 0;
    case Fsdp::Wrap::model:
      return false;
    case Fsdp::Wrap::size:
      return elements >= options.min_num_params;
  }
  return false;
}

}  // namespace

std::vector<FlatParameter> wrap(const Model& model, const Fsdp& options, std::int64_t shards) {
  std::vector<FlatParameter> runs;
  for (std::size_t unit = 0; unit < model.units.size(); ++unit) {
    const std::int64_t elements = model.units[unit].parameters();
    const bool begins = std::ranges::count(model.chunks, unit, &Chunk::first) > 0;
    if (runs.empty() || begins || (elements > 0 && complete(options, runs.back().elements)))
      runs.push_back({unit, unit, 0});
    runs.back().last = unit;
    runs.back().elements += elements;
  }
  for (FlatParameter& run : runs) run.elements = padded(run.elements, shards);
  if (runs.size() == 1 && runs.front().elements == 0) runs.clear();
  return runs;
}

}  // namespace rehearse
