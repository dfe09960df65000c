#include "train/memory_watch.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace rehearse::inline calibrate {

const MemoryPart& StepMemory::peak_part() const {
  check(!parts.empty(), "a step has a part");
  return *std::max_element(
      parts.begin(), parts.end(),
      [](const MemoryPart& a, const MemoryPart& b) { return a.peak < b.peak; });
}

void MemoryWatch::begin() {
  device_.reset_peak();
  step_ = {};
  step_.at_rest = device_.live();
}

Bytes MemoryWatch::take_peak() {
  const Bytes peak = device_.peak();
  step_.allocated_peak = std::max(step_.allocated_peak, peak);
  if (const auto reserved = device_.reserved_peak()) {
    step_.reserved_peak = std::max(step_.reserved_peak.value_or(Bytes(0)), *reserved);
  }
  device_.reset_peak();
  return peak;
}

void MemoryWatch::end_part(const std::string& phase, const std::string& unit) {
  const Bytes peak = take_peak();
  step_.parts.push_back({.phase = phase, .unit = unit, .peak = peak, .live = device_.live()});
}

StepMemory MemoryWatch::finish() {
  take_peak();
  return std::exchange(step_, {});
}

torch::Tensor watched_loss(const Chain& chain, const Batch& batch, MemoryWatch& watch) {
  torch::Tensor value = batch.input;
  for (std::size_t u = 0; u < chain.units.size(); ++u) {
    value = chain.units[u].module->forward(value);
    if (u + 1 == chain.units.size()) value = chain.loss(value, batch.target);
    watch_backward(chain, u, value, watch);
    watch.end_part("forward", chain.units[u].name);
  }
  return value;
}

void watch_backward(const Chain& chain, std::size_t unit, const torch::Tensor& value,
                    MemoryWatch& watch) {
  if (unit + 1 == chain.units.size() || !value.requires_grad()) return;
  value.register_hook([&watch, name = chain.units[unit + 1].name](const torch::Tensor&) {
    watch.end_part("backward", name);
  });
}

void end_backward(const Chain& chain, MemoryWatch& watch) {
  watch.end_part("backward", chain.units.front().name);
}

}  // namespace rehearse::inline calibrate
