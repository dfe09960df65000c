#include "model/captured/captured.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace rehearse::captured {

double Tensor::elements(double batch) const {
  double all = 1;
  for (const Size& side : shape) all *= side.at(batch);
  return all;
}

Bytes Tensor::element() const {
  static const std::map<std::string, double> kBytes = {{"fp64", 8}, {"int64", 8}, {"complex64", 8},
                                                       {"fp32", 4}, {"int32", 4}, {"bf16", 2},
                                                       {"fp16", 2}, {"int16", 2}};
  const auto found = kBytes.find(format);
  return Bytes(found == kBytes.end() ? 1 : found->second);
}

double Kernel::option(const std::string& key, std::size_t place, double otherwise) const {
  const auto found = options.find(key);
  if (found == options.end() || found->second.empty()) return otherwise;
  return found->second[std::min(place, found->second.size() - 1)];
}

std::int64_t padded_elements(const Model& model, std::size_t unit, std::size_t tensor,
                             std::int64_t ranks) {
  const std::int64_t elements = model.units[unit].tensors[tensor];
  if (!model.captured) return elements;
  const std::int64_t rows = model.captured->units[model.units[unit].captured_unit].rows.at(tensor);
  return rows == 0 ? elements : elements / rows * ((rows + ranks - 1) / ranks * ranks);
}

Bytes batch_bytes(const Step& step, double batch) {
  Bytes all;
  for (const Tensor& one : step.inputs) all += one.bytes(batch);
  return all;
}

namespace {

/// What earlier units made and those from `unit` on read, the largest first.
std::vector<std::uint32_t> entering(const Step& step, std::size_t unit, std::size_t end) {
  std::set<std::uint32_t> found;
  for (std::size_t later = unit; later < end; ++later)
    for (const std::uint32_t tensor : step.units[later].enters)
      if (step.tensors[tensor].unit < unit) found.insert(tensor);
  const auto size = [&](std::uint32_t tensor) {
    return step.kinds[step.tensors[tensor].kind].bytes(2).value();
  };
  std::vector<std::uint32_t> all(found.begin(), found.end());
  std::ranges::stable_sort(all, std::greater<>{}, size);
  return all;
}

/// Writes the tape of some of a captured step's units.
class TapeWriter {
 public:
  TapeWriter(const Model& model, double batch)
      : model_(model), step_(*model.captured), batch_(batch), ids_(step_.tensors.size()) {
    tape_.units.resize(model.units.size());
    for (std::size_t unit = 0; unit < model.units.size(); ++unit)
      place_[model.units[unit].captured_unit] = static_cast<std::uint32_t>(unit);
  }

  MemoryTape write() {
    if (model_.chunks.empty()) write_units(0, model_.units.size());
    for (const Chunk& chunk : model_.chunks) write_chunk(chunk);
    return std::move(tape_);
  }

 private:
  const UnitStep& step_of(std::size_t unit) const {
    return step_.units[model_.units[unit].captured_unit];
  }

  std::uint32_t make(std::uint32_t number, std::uint32_t unit) {
    const StepTensor& one = step_.tensors[number];
    TapeTensor made{.role = one.role, .size = step_.kinds[one.kind].bytes(batch_), .unit = unit};
    const bool of_parameter =
        one.role == TensorRole::parameter_gradient || one.role == TensorRole::autocast_copy;
    if (of_parameter) {
      const auto owner = place_.find(one.unit);
      // A weight that another rank has, too (tied embeddings), is this unit's passing affair.
      if (owner == place_.end()) made.role = TensorRole::activation_gradient;
      if (owner != place_.end()) made.unit = owner->second;
      made.parameter = one.parameter;
    }
    tape_.tensors.push_back(made);
    return static_cast<std::uint32_t>(tape_.tensors.size() - 1);
  }

  void write_pass(const std::vector<std::int64_t>& events, std::uint32_t unit,
                  std::vector<TapeEvent>& to) {
    for (const std::int64_t event : events) {
      const auto number = static_cast<std::uint32_t>(event >= 0 ? event : -1 - event);
      if (event >= 0) {
        ids_[number] = make(number, unit);
        open_.insert(number);
      } else if (open_.erase(number) == 0) {
        continue;  // another rank's, or what a chunk was given
      }
      to.push_back({*ids_[number], event >= 0});
    }
  }

  void write_units(std::size_t first, std::size_t end) {
    for (std::size_t unit = first; unit < end; ++unit)
      write_pass(step_of(unit).forward, static_cast<std::uint32_t>(unit),
                 tape_.units[unit].forward);
    for (std::size_t unit = end; unit-- > first;)
      write_pass(step_of(unit).backward, static_cast<std::uint32_t>(unit),
                 tape_.units[unit].backward);
  }

  std::uint32_t message(std::uint32_t like, std::size_t unit) {
    const Bytes size = step_.kinds[step_.tensors[like].kind].bytes(batch_);
    tape_.tensors.push_back({.size = size, .unit = static_cast<std::uint32_t>(unit)});
    return static_cast<std::uint32_t>(tape_.tensors.size() - 1);
  }

  /// A chunk keeps what it is given until its backward is over. What it hands over is its own from
  /// then on no more; what others would give back ends with its backward.
  void write_chunk(const Chunk& chunk) {
    const std::size_t first = chunk.first, last = chunk.end - 1;
    const std::uint32_t begin = model_.units[first].captured_unit;
    const std::uint32_t end = model_.units[last].captured_unit + 1;
    ChunkTape& own = tape_.chunks.emplace_back();
    const auto before = entering(step_, begin, end);
    const auto behind = entering(step_, end, step_.units.size());
    open_.clear();
    if (!before.empty()) {
      own.received = message(before[0], first);
      tape_.units[first].forward.push_back({*own.received, true});
    }
    if (!behind.empty()) {
      own.received_gradient = message(behind[0], last);
      tape_.tensors.back().role = TensorRole::activation_gradient;
      tape_.units[last].backward.push_back({*own.received_gradient, true});
    }
    write_units(first, chunk.end);
    std::vector<TapeEvent>& close = tape_.units[first].backward;
    if (!behind.empty() && step_.tensors[behind[0]].unit >= begin) {
      own.sent = ids_[behind[0]];
      own.keeps_sent = open_.erase(behind[0]) == 0;  // such as ReLU's output
    }
    if (!before.empty()) {
      own.sent_gradient = gradient_of(before[0], first);
      close.push_back({*own.received, false});
    }
    if (own.received_gradient) close.push_back({*own.received_gradient, false});
    for (const std::uint32_t number : open_)
      if (tape_.tensors[*ids_[number]].role != TensorRole::parameter_gradient)
        close.push_back({*ids_[number], false});
  }

  /// Of what a chunk was given: the one of its size that its backward leaves, or a new one.
  std::uint32_t gradient_of(std::uint32_t number, std::size_t unit) {
    const Bytes size = step_.kinds[step_.tensors[number].kind].bytes(batch_);
    for (const std::uint32_t left : open_) {
      const TapeTensor& one = tape_.tensors[*ids_[left]];
      if (one.role != TensorRole::activation_gradient || one.size != size) continue;
      open_.erase(left);
      return *ids_[left];
    }
    const std::uint32_t made = message(number, unit);
    tape_.tensors[made].role = TensorRole::activation_gradient;
    tape_.units[unit].backward.push_back({made, true});
    return made;
  }

  const Model& model_;
  const Step& step_;
  double batch_;
  MemoryTape tape_;
  std::vector<std::optional<std::uint32_t>> ids_;
  std::set<std::uint32_t> open_;                  ///< taken and not given back
  std::map<std::uint32_t, std::uint32_t> place_;  ///< of captured units in the model
};

}  // namespace

MemoryTape tape_of(const Model& model, double batch) { return TapeWriter(model, batch).write(); }

bool is_block(const Model& model, std::size_t unit) {
  return !model.captured->units[model.units[unit].captured_unit].block.empty();
}

bool can_cut_before(const Model& model, std::size_t unit) {
  const Step& step = *model.captured;
  const auto all = entering(step, model.units[unit].captured_unit, step.units.size());
  const auto large = [&](std::uint32_t tensor) {
    const auto bytes = [&](std::uint32_t one) {
      return step.kinds[step.tensors[one].kind].bytes(2);
    };
    return bytes(tensor).value() > bytes(all[0]).value() / 8;  // masks and tables are made again
  };
  return !all.empty() && std::ranges::count_if(all, large) == 1;
}

}  // namespace rehearse::captured
