#include "model/memory_tape.hpp"

namespace rehearse {

namespace {

// What forward keeps of a unit, as one tensor.
Bytes saved(const Unit& unit, const TapeOptions& options) {
  if (unit.activation) return *unit.activation;
  const auto batch = static_cast<double>(options.batch);
  double copies = is_autocast(options.precision) ? unit.saved_autocast_elements : 0;
  return batch * (unit.saved_elements * activation_element(options.precision) +
                  unit.saved_wide_elements * parameter_element(options.precision) +
                  copies * activation_element(options.precision) + Bytes(unit.saved_bytes));
}

}  // namespace

MemoryTape memory_tape(const Model& model, const TapeOptions& options) {
  MemoryTape tape;
  for (std::uint32_t u = 0; u < model.units.size(); ++u) {
    const Unit& unit = model.units[u];
    UnitTape events;
    const auto take = [&](const TapeTensor& tensor, std::vector<TapeEvent>& where) {
      where.push_back({static_cast<std::uint32_t>(tape.tensors.size()), true});
      tape.tensors.push_back(tensor);
    };
    take({.role = TensorRole::activation, .size = saved(unit, options), .unit = u}, events.forward);
    const std::uint32_t kept = events.forward.back().tensor;
    for (std::uint32_t p = 0; p < unit.tensors.size(); ++p) {
      const Bytes size =
          static_cast<double>(unit.tensors[p]) * parameter_element(options.precision);
      take({TensorRole::parameter_gradient, size, u, p}, events.backward);
    }
    events.backward.push_back({kept, false});
    tape.units.push_back(std::move(events));
  }
  return tape;
}

}  // namespace rehearse
