#include "model/captured/played.hpp"

#include <fmt/format.h>

#include <set>

namespace rehearse::captured {
namespace {

std::string format_of(ElementType type, const std::string& narrow) {
  switch (type) {
    case ElementType::fp32:
      return "fp32";
    case ElementType::narrow:
      return narrow;
    case ElementType::int64:
      return "int64";
    case ElementType::int32:
      return "int32";
    case ElementType::byte:
      return "uint8";
    case ElementType::boolean:
      return "bool";
    case ElementType::complex64:
      return "complex64";
  }
  return "fp32";
}

Tensor tensor_of(const KernelView& view, const std::string& narrow) {
  Tensor tensor{.format = format_of(view.type, narrow),
                .strided = view.layout == MemoryLayout::strided,
                .channels_last = view.layout == MemoryLayout::channels_last};
  for (const std::int64_t size : view.sizes)
    tensor.shape.push_back({.constant = static_cast<double>(size)});
  return tensor;
}

}  // namespace

std::vector<Kernel> kernels_of(const std::vector<model::Kernel>& played, bool backward,
                               const std::string& narrow) {
  std::vector<Kernel> kernels;
  kernels.reserve(played.size());
  for (const model::Kernel& one : played) {
    Kernel& kernel = kernels.emplace_back();
    kernel.name = one.op;
    for (const KernelView& view : one.reads) kernel.reads.push_back(tensor_of(view, narrow));
    for (const KernelView& view : one.writes) kernel.writes.push_back(tensor_of(view, narrow));
    for (const auto& [key, values] : one.options) kernel.options[std::string(key)] = values;
    kernel.backward = backward;
    const bool follows =
        kernels.size() > 1 && backward && played[kernels.size() - 2].node == one.node;
    kernel.role = one.role;
    kernel.first_of_node = one.role != KernelRole::gathered && !follows;
  }
  return kernels;
}

namespace {

std::vector<UnitCalls> as_captured(const Model& model) {
  std::vector<UnitCalls> units;
  for (const Unit& unit : model.units) {
    UnitCalls& calls = units.emplace_back(UnitCalls{unit.name});
    for (const Operator& op : unit.operators)
      if (op.kernel) (op.kernel->backward ? calls.backward : calls.forward).push_back(*op.kernel);
  }
  return units;
}

}  // namespace

std::vector<UnitCalls> calls_of(const Model& model, TapeOptions options) {
  if (model.captured) return as_captured(model);
  options.kernels = true;
  const MemoryTape tape = memory_tape(model, options);
  const std::string narrow = is_bf16(options.precision) ? "bf16" : "fp16";
  std::vector<UnitCalls> units;
  for (std::size_t i = 0; i < tape.kernels.size(); ++i)
    units.push_back({model.units[i].name, kernels_of(tape.kernels[i].forward, false, narrow),
                     kernels_of(tape.kernels[i].backward, true, narrow)});
  return units;
}

// Products, and products of elements, save what they read before they run; sums, copies and
// products with a number save nothing.
std::vector<Kernel> run_again(const std::vector<Kernel>& forward) {
  static const std::set<std::string> kSavesNothing = {"add", "add_", "_to_copy", "clone"};
  static const std::set<std::string> kSavesInputs = {"mm", "addmm", "mul", "bmm"};
  const auto saves_nothing = [](const Kernel& one) {
    return kSavesNothing.contains(one.name) || (one.name == "mul" && one.reads.size() == 1);
  };
  std::vector<Kernel> again = forward;
  while (!again.empty() && saves_nothing(again.back())) again.pop_back();
  if (!again.empty() && kSavesInputs.contains(again.back().name)) again.pop_back();
  for (Kernel& one : again) one.backward = true;
  return again;
}

std::string to_string(const Tensor& tensor, double batch) {
  std::string text = tensor.format + "[";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i)
    text += fmt::format("{}{:.0f}", i > 0 ? ", " : "", tensor.shape[i].at(batch));
  return text + "]";
}

}  // namespace rehearse::captured
